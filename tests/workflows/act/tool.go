//go:build tools

// Package tools names act, so that `go mod tidy` keeps the modules that it is built from.
package tools

import _ "github.com/nektos/act/cmd"
