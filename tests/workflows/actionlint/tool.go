//go:build tools

// Package tools is only here so that `go mod tidy` keeps what the linter of the workflows is built from.
package tools

import _ "github.com/rhysd/actionlint/cmd/actionlint"
