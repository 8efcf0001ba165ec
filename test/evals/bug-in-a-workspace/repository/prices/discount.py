"""What several pieces cost."""


def total(price, pieces):
    """Return the price of some pieces, in cents."""
    amount = price * pieces
    if pieces > 10:
        amount = round(amount * 0.9)
    return amount
