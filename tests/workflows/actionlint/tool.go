//go:build tools

// Package tools names actionlint, so that `go mod tidy` keeps the modules that it is built from.
package tools

import _ "github.com/rhysd/actionlint/cmd/actionlint"
