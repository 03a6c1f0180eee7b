// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package settings holds the global settings of a management server, the limits of resources, and their defaults.
package settings
