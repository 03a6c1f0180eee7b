// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the product as users run it: the chart with Helm, and csccm as a program, on a real control plane
// with process nodes and a simulated CloudStack.
package e2e
