// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

// chapters are all scenarios, those that build on an install after it.
func chapters() []chapter {
	return []chapter{
		{name: "installed by csccm", world: isolated, scenarios: []scenario{
			{"csccm install on uninitialised nodes", install},
			{"TCP Service: from the balancer's address to every Pod", tcp},
			{"PROXY protocol: the Pod sees the client", proxyProtocol},
			{"source ranges: allowed and refused clients", sourceRanges},
			{"sessionAffinity ClientIP", affinity},
			{"csccm doctor", doctor},
		}},
	}
}
