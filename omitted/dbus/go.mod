module github.com/godbus/dbus/v5

go 1.26.0
