// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubernetes implements the commands of CloudStack Kubernetes Service.
package kubernetes
