// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package log logs nothing.
package log

import "log/slog"

// SetDefault does nothing.
func SetDefault(*slog.Logger) {}
