// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

// Facts are what is read from a cluster and its CloudStack before rules are renamed.
type Facts struct {
	Services []corev1.Service // all Services of the cluster
	Nodes    []corev1.Node
	VMs      *inventory.VMSnapshot
	Rules    []cloudstack.LoadBalancerRule
	Project  string // id of the rules' project; "" for the account itself
}

// Read reads the facts. It returns errors of the API server unchanged.
func Read(ctx context.Context, kube kubernetes.Interface, cs *access.Cloud) (f *Facts, err error) {
	f = &Facts{Services: cluster.Services(ctx, &err, kube)}
	f.Nodes = cluster.Nodes(ctx, &err, kube)
	if err != nil {
		return nil, err
	}
	inv := cs.Inventory()
	if f.Project, err = inv.ProjectID(ctx); err != nil {
		return nil, err
	}
	if f.VMs, err = inv.VMs(ctx, 0); err != nil {
		return nil, fmt.Errorf("list virtual machines: %w", err)
	}
	f.Rules, err = cs.Client.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: f.Project})
	if err != nil {
		return nil, fmt.Errorf("list load balancer rules: %w", err)
	}
	return f, nil
}

// Members are the members of load balancer rules, by rule id.
type Members = map[string][]cloudstack.LoadBalancerMember

// ReadMembers returns the members of rules. A rule that was deleted since it was listed has none.
func ReadMembers(ctx context.Context, api *cloudapi.Client, rules []string) (Members, error) {
	members, err := cluster.Each(ctx, rules,
		func(ctx context.Context, id *string) ([]cloudstack.LoadBalancerMember, error) {
			list, err := api.ListLoadBalancerMembers(ctx, *id)
			if cloudstack.IsNotFound(err) {
				return nil, nil
			}
			return list, err
		})
	if err != nil {
		return nil, fmt.Errorf("list the members of load balancer rules: %w", err)
	}
	out := Members{}
	for i, id := range rules {
		out[id] = members[i]
	}
	return out, nil
}

// Applier renames rules.
type Applier struct {
	API      *cloudapi.Client
	Project  string // id of the rules' project
	Progress *report.Progress
	Note     func(format string, args ...any) // called after each step
	Undo     string                           // the command that reverts the steps
}

// Apply renames rules one after the other. A rule that already has its new name counts as done, so a second run
// continues where the first one ended. Apply completes a rename that has begun even if ctx ends.
func (a *Applier) Apply(ctx context.Context, steps []Step) error {
	for i := range steps {
		what, err := "", ctx.Err()
		if err == nil {
			a.Progress.Step("%s", steps[i].Describe())
			what, err = a.rename(context.WithoutCancel(ctx), &steps[i])
		}
		if err != nil {
			a.Progress.Fail("%v", err)
			// The cause is text and not wrapped: after ^C this error is more useful than the engine's error for a step
			// that was interrupted.
			return report.Errorf(
				"run the same command again to continue, or "+a.Undo+" to go back",
				"%d of %s renamed: rule %q (%s): %v",
				i, report.Count(len(steps), "rule"), steps[i].Name, steps[i].RuleID, err,
			)
		}
		a.Progress.Done("%s", what)
		a.Note("%s", steps[i].Describe())
	}

	return nil
}

func (a *Applier) rename(ctx context.Context, s *Step) (what string, err error) {
	list, err := a.API.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ID: s.RuleID, ProjectID: a.Project})
	if err != nil && !cloudstack.IsNotFound(err) {
		return "", err
	}

	if len(list) != 1 {
		return "", errors.New("was deleted after the plan was made: run the command again")
	}

	was := &list[0]
	if was.Name == s.NewName {
		return "already has the name", nil
	}

	if was.Name != s.Name || was.PublicPort != s.Port || was.PublicIP != s.PublicIP {
		return "", fmt.Errorf("has changed since the plan was made (now %q, %s:%d): run the command again",
			was.Name, was.PublicIP, was.PublicPort)
	}

	// The protocol is always sent: an update without it ends in a server error for rules that were created without one.
	// The algorithm is sent so that the update cannot change it.
	job, err := a.API.UpdateLoadBalancerRule(ctx, cloudstack.UpdateLoadBalancerRuleRequest{
		ID: s.RuleID, Name: s.NewName, Protocol: protocolOf(was), Algorithm: was.Algorithm,
	})
	if err == nil {
		_, err = a.API.Jobs().Wait(ctx, "updateLoadBalancerRule", job.JobID)
	}

	return "renamed", err
}

// Record is what csccm changed for a Service, with the former values. It is stored in an annotation of the Service.
type Record struct {
	Annotations map[string]Change `json:"annotations,omitempty"`
	Rules       map[string]string `json:"rules,omitempty"` // former names, by rule id
}

// Change is an annotation that csccm set.
type Change struct {
	Was *string `json:"was"` // null if it was not set
	Set string  `json:"set"`
}

// RecordOf returns the record in an annotation; recorded is false if there is none or it cannot be parsed.
func RecordOf(svc *corev1.Service, annotation string) (r Record, recorded bool) {
	recorded = json.Unmarshal([]byte(svc.Annotations[annotation]), &r) == nil
	if r.Annotations == nil { // also if the annotation has null
		r.Annotations = map[string]Change{}
	}
	if r.Rules == nil {
		r.Rules = map[string]string{}
	}
	return r, recorded
}

// Keep records, in an annotation of each Service, the names of its rules that the steps change. It sets other
// annotations of the Service in the same patch. All this happens before any rule is renamed, so that the record is
// enough to undo everything. Names that a former run recorded are kept. set has the values of the other annotations by
// Service and annotation. Keep returns the number of Services that it has changed.
func Keep(
	ctx context.Context, kube kubernetes.Interface, annotation string, steps []Step, set map[string]map[string]string,
) (int, error) {
	services := sets.KeySet(set)
	for _, step := range steps {
		services.Insert(step.Service)
	}

	for _, service := range sets.List(services) {
		namespace, name, _ := strings.Cut(service, "/")
		svc, err := kube.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return 0, fmt.Errorf("reading Service %s: %w", service, err)
		}

		was, _ := RecordOf(svc, annotation)
		for _, s := range steps {
			if s.Service == service {
				was.Rules[s.RuleID] = cmp.Or(was.Rules[s.RuleID], s.Name)
			}
		}

		values := map[string]*string{}
		for name, value := range set[service] {
			c, again := was.Annotations[name]
			if v, there := svc.Annotations[name]; there && !again {
				c.Was = &v
			}
			c.Set = value
			was.Annotations[name], values[name] = c, &value
		}

		body, err := json.Marshal(was)
		if err != nil {
			return 0, err
		}

		values[annotation] = ptr.To(string(body))
		if err := Annotate(ctx, kube, service, values); err != nil {
			return 0, err
		}
	}

	return len(services), nil
}

// Undo plans to rename rules of a Service to their former names, by id, and returns the rules that it does not rename
// as skipped. Everyone who can edit the Service can edit the recorded names, so Undo renames only rules of the Service,
// and only to names that belong to the Service.
func Undo(
	svc *corev1.Service, was map[string]string, now []cloudstack.LoadBalancerRule,
) (todo []Step, skipped []string) {
	lb := cloudprovider.DefaultLoadBalancerName(svc)
	leaseweb := func(n Name) bool {
		return n.Family == FamilyLeaseweb && n.Namespace == svc.Namespace && n.Service == svc.Name
	}
	for _, id := range slices.Sorted(maps.Keys(was)) {
		i := slices.IndexFunc(now, func(r cloudstack.LoadBalancerRule) bool { return r.ID == id })
		old := ParseName(was[id])

		switch {
		case i < 0:
			skipped = append(skipped, fmt.Sprintf("rule %s no longer exists", was[id]))
		case now[i].Name == was[id]: // never renamed, or already renamed back
		// Require the Service's UID in the current name, because a Leaseweb name does not prove whose rule it is.
		case ParseName(now[i].Name).LB != lb || old.LB != lb && !leaseweb(old):
			skipped = append(skipped,
				fmt.Sprintf("rule %s, formerly %s, was renamed by somebody else and keeps that name",
					now[i].Name, was[id]))
		default:
			// A rule that had no protocol keeps "tcp": CloudStack cannot remove it, and it has the same effect.
			r := &now[i]
			todo = append(todo,
				Step{
					RuleID:   id,
					Name:     r.Name,
					NewName:  was[id],
					PublicIP: r.PublicIP,
					Port:     r.PublicPort,
					Service:  Key(svc),
				})
		}
	}

	return todo, skipped
}

// Annotate sets annotations of a Service, named namespace/name; nil removes an annotation.
func Annotate(ctx context.Context, kube kubernetes.Interface, service string, values map[string]*string) error {
	namespace, name, _ := strings.Cut(service, "/")
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
	if err == nil {
		_, err = kube.CoreV1().Services(namespace).Patch(ctx, name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: "csccm"})
	}
	if err != nil {
		return fmt.Errorf("annotating Service %s: %w", service, err)
	}
	return nil
}
