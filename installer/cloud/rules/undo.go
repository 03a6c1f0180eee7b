// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
)

// Undo plans the way back to the names that rules of a Service had, by id, and says what stays. Whoever may write the Service may
// have written these names, so only a rule of the Service is renamed, and only to a name of the Service.
func Undo(svc *corev1.Service, was map[string]string, now []Rule) (todo []Step, stays []string) {
	lb := cloudprovider.DefaultLoadBalancerName(svc)
	leaseweb := func(n Name) bool {
		return n.Family == FamilyLeaseweb && n.Namespace == svc.Namespace && n.Service == svc.Name
	}
	for _, id := range slices.Sorted(maps.Keys(was)) {
		i := slices.IndexFunc(now, func(r Rule) bool { return r.ID == id })
		old := ParseName(was[id])
		switch {
		case i < 0:
			stays = append(stays, fmt.Sprintf("rule %s is gone by now", was[id]))
		case now[i].Name == was[id]: // never renamed, or back already
		case ParseName(now[i].Name).LB != lb || old.LB != lb && !leaseweb(old): // Leaseweb's names are no proof whose a rule is
			stays = append(stays, fmt.Sprintf("rule %s, which was %s, has a third name by now and keeps it", now[i].Name, was[id]))
		default: // the protocol stays: CloudStack cannot take it away again, and "tcp" is what a rule without one does
			r := &now[i]
			todo = append(todo, Step{RuleID: id, Name: r.Name, NewName: was[id], PublicIP: r.PublicIP, Port: r.PublicPort, Service: key(svc)})
		}
	}
	return todo, stays
}

// Annotate gives annotations of a Service, by namespace/name, their values; nil removes one.
func Annotate(ctx context.Context, kube kubernetes.Interface, service string, values map[string]*string) error {
	namespace, name, _ := strings.Cut(service, "/")
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
	if err == nil {
		_, err = kube.CoreV1().Services(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "csccm"})
	}
	if err != nil {
		return fmt.Errorf("annotating Service %s: %w", service, err)
	}
	return nil
}
