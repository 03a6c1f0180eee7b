// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package traffic sends steady requests (HTTP/1.1) through load balancers while a test changes them. It reports what
// the clients saw: how many requests failed, the longest time without an answer, and how many open connections were
// cut.
package traffic
