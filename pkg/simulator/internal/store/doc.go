// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store is the database of a simulated CloudStack: its rows, its tables, and the rules that hold between rows.
package store
