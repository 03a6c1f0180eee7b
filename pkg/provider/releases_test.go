// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"strings"
)

// asRelease makes the server one of CloudStack's releases.
func asRelease(version string) envOption {
	return withWorld(func(w string) string { return strings.Replace(w, "version: 4.22.0.0", "version: "+version+".0.0", 1) })
}

// withVPC adds a VPC: a tier with an ACL list of the operator's, one that balances internally, and one under each
// default list.
func withVPC(env *serviceEnv, w *string) {
	env.vpc = true
	*w += "\n  - {address: 203.0.113.50, vpc: vpc-1}\n" + vpcHead + `
          - {number: 5, protocol: tcp, startPort: 80, endPort: 80, cidrs: [192.0.2.0/24], action: Deny, reason: "Service default/web (csccm other ` + webUID + `)"}
          - {number: 10, protocol: all, action: Deny, reason: wall}
`
	*w = strings.Replace(*w, "networks:\n", "networks:\n"+vpcTiers+"  - {name: denied, vpc: vpc-1, account: k8s, cidr: 10.2.3.0/24, acl: default_deny}\n", 1)
	*w = strings.Replace(*w, "virtualMachines:\n", "virtualMachines:\n"+vpcMachines+"  - {name: d1, account: k8s, nics: [{network: denied, ip: 10.2.3.21}]}\n", 1)
}
