// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package provider

const raceDetector = true
