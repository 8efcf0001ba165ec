module github.com/coder/serpent

go 1.26.0
