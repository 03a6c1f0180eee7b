// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fault selects the calls that fail, and how.
package fault
