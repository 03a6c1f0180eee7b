// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provider is the cloudprovider.Interface of CloudStack: the glue between Kubernetes' cloud
// controllers and the packages that do the work, and its Events and metrics.
package provider
