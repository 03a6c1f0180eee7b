// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package jobs runs asynchronous jobs, and lists them.
package jobs
