// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package world describes a simulated CloudStack at its start, and builds the store from the description.
package world
