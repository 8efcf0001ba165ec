import unittest

from prices.discount import total


class TotalTest(unittest.TestCase):
    def test_nine_pieces_have_no_discount(self):
        self.assertEqual(total(100, 9), 900)

    def test_ten_pieces_are_cheaper(self):
        self.assertEqual(total(100, 10), 900)

    def test_eleven_pieces_are_cheaper(self):
        self.assertEqual(total(100, 11), 990)
