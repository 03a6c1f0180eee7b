// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the product as users meet it: the chart by Helm and csccm as a
// program, on a real control plane, with process nodes and a simulated CloudStack.
package e2e
