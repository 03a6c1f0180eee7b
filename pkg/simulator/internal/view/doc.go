// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package view renders VMs, which the answers of several families contain.
package view
