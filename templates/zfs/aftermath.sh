zpool status -P {{ layer.pool }} || true
