// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cloudstack is the client of the CloudStack API: a function for each call that the controller makes, and Call,
// Submit and List for other packages (cloudapi of the installer). All errors are of type [*Error].
//
// The CloudStack Go SDK (cloudstack-go) builds the request of a call and unwraps its answer: it knows how CloudStack
// wraps answers and results, in all releases. It is used by command name with plain parameters (its CustomService), and
// not for
//   - its typed calls: they take no context, decode numbers that the server sends as text into errors, write
//     vmidipmap so that no server understands it, and leave out parameters such as customjobid;
//   - sending: its signature is wrong for a tilde, it puts keys into URLs and errors, and it does not retry or limit
//     calls;
//   - waiting for jobs: each caller would poll for itself;
//   - lists: those of VMs and of the members of rules are megabytes long, and are read while they arrive.
package cloudstack
