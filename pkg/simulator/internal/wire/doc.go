// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wire is the protocol of the CloudStack API: requests, signatures, sessions, parameters, lists, answers and
// errors, and the checks that commands of all families share.
package wire
