// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
)

// withProject moves the cluster into a project.
func withProject(b *bed, w *string) {
	const project = "6c1f6d3e-0000-4000-8000-000000000001"
	b.project = project
	*w += `
projects:
  - {id: ` + project + `, name: dev, owner: k8s}
`
	*w = strings.Replace(*w, "networks:\n", "networks:\n  - {name: project-net, project: dev, cidr: 10.1.9.0/24, sourceNAT: 203.0.113.90}\n", 1)
	*w = strings.Replace(*w, "virtualMachines:\n", `virtualMachines:
  - {name: p1, project: dev, nics: [{network: project-net, ip: 10.1.9.21}]}
  - {name: p2, project: dev, nics: [{network: project-net, ip: 10.1.9.22}]}
`, 1)
}

// moreScenarios are those on other networks than the isolated one of the account.
func moreScenarios() []scenario {
	create := func(b *bed) { b.service([]int{80, 81}) }
	on := func(world bedOption, kind string, nodes []string, setup func(*bed)) []scenario {
		sync := func(b *bed) error { return b.sync(nodes...) }
		made := func(b *bed) {
			setup(b)
			b.mustSync(nodes...)
		}
		changed := func(change func(*corev1.Service)) func(*bed) {
			return func(b *bed) { made(b); b.change(change) }
		}
		all := []bedOption{world}
		return []scenario{
			{kind + ": create", all, setup, sync},
			{kind + ": delete", all, made, func(b *bed) error { return b.remove() }},
			{kind + ": ports", all, changed(func(s *corev1.Service) { s.Spec.Ports = servicePorts(81, 443) }), sync},
			{kind + ": ranges", all, changed(func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", "172.16.0.0/12"} }), sync},
			{kind + ": a node leaves", all, made, func(b *bed) error { return b.sync(nodes[1]) }},
		}
	}
	out := on(withVPC, "VPC", []string{"v1", "v2"}, create)
	out = append(out, on(withVPC, "internal", []string{"i1", "i2"}, func(b *bed) { b.service([]int{80, 81}, annotate(annotation.Internal, "true")) })...)
	out = append(out, on(withProject, "project", []string{"p1", "p2"}, create)...)
	both := []string{"w1", "w2"}
	out = append(out,
		scenario{
			name: "stickiness", setup: func(b *bed) { b.service([]int{80}, annotate(annotation.StickinessMethod, "source")) },
			act: func(b *bed) error { return b.sync(both...) },
		},
		scenario{
			name: "shared: the second joins",
			setup: func(b *bed) {
				sharing(b)
				b.changeAs("mail", func(s *corev1.Service) { s.Spec.Ports = servicePorts(25, 587) })
			},
			act: func(b *bed) error { return b.syncAs("mail", both...) },
		},
		scenario{
			name: "shared: the first leaves", setup: func(b *bed) { sharing(b) },
			act: func(b *bed) error { return b.remove() },
		},
		scenario{
			name: "a port out of a range, and a single source",
			setup: func(b *bed) {
				b.service([]int{80, 81, 82})
				b.mustSync(both...)
				b.change(func(s *corev1.Service) {
					s.Spec.Ports = servicePorts(80, 82)
					s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.1/32"}
				})
			},
			act: func(b *bed) error { return b.sync(both...) },
		},
	)
	return out
}
