// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck

// ClientCertificate is for tests against a CloudStack.
var ClientCertificate = clientCertificate
