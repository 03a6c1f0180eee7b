// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// takenOver takes over from Apache's provider in three steps: prepare, install next to it, swap.
func takenOver(ctx context.Context, e *env) string {
	return e.takenOver(ctx, testenv.RulesOfOld, [][]string{
		{"takeover", "--yes"},
		{"install", "--yes", "--skip-taint", "--skip-check", "CCM-002,CCM-003", "--set", "instanceTypeFormat=upstream"},
		{"takeover", "--yes"},
	})
}

type rules = map[string]testenv.Rule

// leasewebTakenOver takes over from Leaseweb's provider with the one command of docs/migrate.md.
func leasewebTakenOver(ctx context.Context, e *env) string {
	return e.takenOver(ctx, e.leasewebNames, [][]string{{"install", "--yes", "--skip-taint"}})
}

// leasewebNames renames rules to the names that Leaseweb's fork uses, which contain the name of the Service.
func (e *env) leasewebNames(ctx context.Context, client *cloudstack.Client, rules rules) (err error) {
	defer must.Return(&err)
	services := must.Get(e.Client.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{}))
	names := map[string]string{}
	for i := range services.Items {
		for _, at := range services.Items[i].Status.LoadBalancer.Ingress {
			names[at.IP] = services.Items[i].Name
		}
	}
	for id, r := range rules {
		service, ok := names[r.PublicIP]
		must.Be(ok, "no Service has the address of rule %s: %+v", id, r)
		s := must.Get(client.UpdateLoadBalancerRule(ctx, cloudstack.UpdateLoadBalancerRuleRequest{
			ID: id, Name: fmt.Sprintf("K8s_svc_kubernetes_%s_%s-tcp-%d", metav1.NamespaceDefault, service, r.PublicPort), Protocol: r.Protocol, Algorithm: r.Algorithm,
		}))
		must.Get(client.Jobs().Wait(ctx, "updateLoadBalancerRule", s.JobID))
	}
	return nil
}

// takenOver replaces a running provider under traffic and checks that rules keep their IDs and addresses and get
// csccm's names. age renames the rules to the names of the old provider first.
func (e *env) takenOver(ctx context.Context, age func(context.Context, *cloudstack.Client, rules) error, steps [][]string) string {
	one, _ := e.served(ctx, "web", nil)
	two, _ := e.served(ctx, "shop", func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
	client := must.Get(e.client())
	defer client.CloseIdleConnections()
	ips := []string{one.Addr().String(), two.Addr().String()}
	rules := must.Get(testenv.RulesByID(ctx, client, ips...))
	must.OK(age(ctx, client, rules))
	unchanged := e.foreign(ctx, ips[0])
	r := e.steady(ctx, "", true, one, two)
	defer r.Stop()
	for _, args := range steps {
		e.csccm(ctx, args...)
	}
	e.until(ctx, "the new controller to record its addresses", func(ctx context.Context) {
		for _, name := range []string{"web", "shop"} {
			s := must.Get(e.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{}))
			must.Not(s.Annotations[prefix+"addresses"] == "", "service %s has no annotation %s", name, prefix+"addresses")
		}
	})
	after := must.Get(testenv.RulesByID(ctx, client, ips...))
	for id, was := range rules {
		if now, ok := after[id]; !ok || now.PublicIP != was.PublicIP || now.Name != was.Name {
			must.Fail("rule %s was %+v and is %+v", id, was, now)
		}
	}
	sum := r.Stop()
	must.OK(errors.Join(sum.Err(), unchanged()))
	return brief(sum) + "; port forwardings of others kept"
}
