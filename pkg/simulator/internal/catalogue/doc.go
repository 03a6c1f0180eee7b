// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package catalogue holds the commands of CloudStack 4.22 with their parameters and answers, and what the releases since
// 4.16 added.
package catalogue
