// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dump converts the store to the rows of a world file, and back.
package dump
