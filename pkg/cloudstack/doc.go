// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cloudstack is csccm's one door to the CloudStack API.
//
// It sends signed calls through the CloudStack Go SDK over a transport of its own, and answers with small values and
// with errors of one type, [*Error]. What the SDK lacks is done here once: contexts, retries, rate limits, complete lists,
// the server's own signature encoding, shared waiting for asynchronous jobs, and texts without secrets.
package cloudstack
