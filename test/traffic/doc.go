// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package traffic sends steady requests (HTTP/1.1) through load balancers while something
// happens to them, and says what their clients saw: how many requests failed, for
// how long nobody was answered, and whether connections that stayed open were cut.
package traffic
