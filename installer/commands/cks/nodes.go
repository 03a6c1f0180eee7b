// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// addNodes prepares to add existing VMs to a cluster as workers.
func addNodes(ctx context.Context, t *task, k *cloudapi.KubernetesCluster) error {
	query := cloudstack.VMQuery{ZoneID: k.ZoneID, ProjectID: t.Project, WithOffering: true}
	vms, err := t.API.ListVirtualMachines(ctx, query)
	if err != nil {
		return explain("list the VMs", err)
	}

	clusters, err := t.clusters(ctx)
	if err != nil {
		return err
	}

	var joining []cloudstack.VirtualMachine
	for _, name := range t.VMs {
		vm, err := pick("VM", "", name, vms,
			func(vm *cloudstack.VirtualMachine) []string { return []string{vm.ID, vm.Name} })
		if err != nil {
			return err
		}

		if other := ckscheck.ClusterOf(clusters, map[string]bool{vm.ID: true}); other != nil && other.ID != k.ID {
			return report.Usage(
				"name VMs that are in no cluster",
				"VM %s is a node of cluster %s; nothing was changed", vm.Name, other.Name,
			)
		}

		joining = append(joining, *vm)
	}

	t.params["nodeids"] = strings.Join(cloudapi.Names(joining,
		func(vm *cloudstack.VirtualMachine) string { return vm.ID }), ",")
	t.params.Flag("manualupgrade", t.ManualUpgrade).Flag("mountcksisoonvr", t.MountISOOnRouter)

	t.differs = func(k *cloudapi.KubernetesCluster) (c []Change) {
		for _, vm := range joining {
			if !slices.Contains(k.VMs, vm.ID) {
				c = append(c, Change{What: "VM " + vm.Name, To: "a worker; CloudStack configures and restarts the VM"})
			}
		}
		return c
	}

	t.facts = func(r *ckscheck.Reader) (*ckscheck.Facts, error) { return r.Join(ctx, k, joining) }
	t.rules = ckscheck.Join
	return nil
}

// removeNodes prepares to remove VMs from a cluster that were added to it. Their nodes are drained first. The VMs are
// not deleted.
func removeNodes(ctx context.Context, t *task, k *cloudapi.KubernetesCluster) error {
	var leaving []cloudapi.ClusterVM
	for _, name := range t.VMs {
		n, err := pick("node", "", name, k.Nodes,
			func(n *cloudapi.ClusterVM) []string { return []string{n.ID, n.Name} })
		if err != nil {
			return err
		}

		if !n.External {
			return report.Usage(
				"csccm cks scale "+k.Name+" --size N removes workers that CloudStack created",
				"CloudStack created node %s: csccm removes only nodes that were added; nothing was changed", n.Name,
			)
		}

		leaving = append(leaving, *n)
	}

	t.params["nodeids"] = strings.Join(cloudapi.Names(leaving, func(n *cloudapi.ClusterVM) string { return n.ID }), ",")

	t.differs = func(k *cloudapi.KubernetesCluster) (c []Change) {
		for _, vm := range leaving {
			if slices.Contains(k.VMs, vm.ID) {
				c = append(c, Change{What: "node " + vm.Name, To: "removed from the cluster; its VM stays"})
			}
		}
		return c
	}

	t.facts = func(r *ckscheck.Reader) (*ckscheck.Facts, error) {
		f := &ckscheck.Facts{Cluster: k, Unread: map[ckscheck.Subject]string{}, Lost: map[string]string{}}
		if r.Kube == nil {
			f.Unread[ckscheck.SubjectPods] = r.NoKube.Error()
			return f, nil
		}

		for _, n := range leaving {
			if err := t.planDrain(ctx, r.Kube, nodeOf(n), f); err != nil {
				return nil, err
			}
		}

		return f, nil
	}

	t.rules = ckscheck.Leave
	return nil
}

// nodeOf returns the name of the Node of a VM.
func nodeOf(vm cloudapi.ClusterVM) string { return strings.ToLower(vm.Name) }

// drainTimeout bounds how long the Pods of a node may take to terminate.
const drainTimeout = 10 * time.Minute

func (t *task) drainer(ctx context.Context, kube kubernetes.Interface) *drain.Helper {
	lose := slices.Contains(t.Ignore, "pods-lost")
	return &drain.Helper{
		Ctx:                 ctx,
		Client:              kube,
		IgnoreAllDaemonSets: true,
		Force:               lose,
		DeleteEmptyDirData:  lose,
		GracePeriodSeconds:  -1,
		Timeout:             drainTimeout,
		Out:                 io.Discard,
		ErrOut:              io.Discard,
	}
}

// planDrain adds the drain of a node to the plan, with the Pods to evict. It adds to f.Lost what drain refuses to
// evict.
func (t *task) planDrain(ctx context.Context, kube kubernetes.Interface, name string, f *ckscheck.Facts) error {
	node, err := kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}

	if err != nil {
		return err
	}

	list, problems := t.drainer(ctx, kube).GetPodsForDeletion(name)
	for _, problem := range problems {
		f.Lost[name] = strings.TrimPrefix(f.Lost[name]+"; "+problem.Error(), "; ")
	}

	evicted := "no Pod has to move"
	if list != nil && len(list.Pods()) > 0 {
		var pods []string
		for _, pod := range list.Pods() {
			pods = append(pods, pod.Namespace+"/"+pod.Name)
		}

		slices.Sort(pods)
		evicted = fmt.Sprintf("evict %s: %s", report.Count(len(pods), "Pod"), strings.Join(pods, ", "))
	}

	t.plan.Changes = append(t.plan.Changes, Change{What: "before that, drain " + name, To: evicted})

	drainNode := func(ctx context.Context) error {
		t.Progress.Step("Draining node %s", name)
		t.Note("cordon and drain node %s", name)

		h := t.drainer(ctx, kube)
		err := drain.RunCordonOrUncordon(h, node, true)
		if err == nil {
			err = drain.RunNodeDrain(h, name)
		}

		if err != nil {
			return report.Errorf(
				"find out why these Pods do not terminate, then run the same command again; "+
					"`kubectl uncordon "+name+"` allows Pods again",
				"node %s is not drained, and no node was removed: %w", name, err,
			)
		}

		return nil
	}

	t.before = append(t.before, engine.Step{Name: "drain node " + name, Do: drainNode})
	return nil
}
