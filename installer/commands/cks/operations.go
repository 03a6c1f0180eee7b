// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/poll"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/service"
)

// States of a cluster.
const (
	stateRunning = "Running"
	stateStopped = "Stopped"
	stateAlert   = "Alert" // the control plane does not work, or nodes are missing
	stateError   = "Error" // the cluster could not be started
)

// inProgress reports whether CloudStack works on a cluster in that state.
func inProgress(state string) bool {
	return slices.Contains([]string{
		"Created", "Starting", "Stopping", "Scaling", "ScalingStoppedCluster", "Upgrading", "Importing",
		"RemovingNodes", "Recovering", "Destroying",
	}, state)
}

// Operation is an operation on a cluster. All operations run in the same way: csccm shows a plan, makes one API call,
// and polls the cluster until its state shows that the operation is over.
type Operation struct {
	name    string   // of the command
	since   string   // CloudStack release that introduced it; "" for all
	verb    string   // for messages; "" means the name
	command string   // API command; "" means the name followed by KubernetesCluster
	setting string   // CloudStack setting that limits its duration, for errors; "" names none
	from    []string // states in which CloudStack accepts it; nil lets CloudStack decide
	during  []string // states of the cluster while it runs
	to      []string // states of the cluster after it; nil if it deletes the cluster
	prepare func(ctx context.Context, t *task, name string) error
}

// The operations.
var (
	Create = Operation{
		name:    "create",
		from:    []string{},
		during:  []string{"Created", "Starting"},
		to:      []string{stateRunning},
		prepare: create,
	}
	Scale = Operation{
		name:    "scale",
		from:    []string{stateRunning, stateStopped},
		during:  []string{"Scaling", "ScalingStoppedCluster"},
		to:      []string{stateRunning, stateStopped},
		prepare: on(scale),
	}
	Upgrade = Operation{
		name:    "upgrade",
		from:    []string{stateRunning},
		during:  []string{"Upgrading"},
		to:      []string{stateRunning},
		prepare: on(upgrade),
	}
	Start  = Operation{name: "start", during: []string{"Starting"}, to: []string{stateRunning}, prepare: on(power)}
	Stop   = Operation{name: "stop", during: []string{"Stopping"}, to: []string{stateStopped}, prepare: on(power)}
	Delete = Operation{name: "delete", during: []string{"Destroying"}, prepare: on(remove)}

	AddNodes = Operation{
		name:    "add-nodes",
		since:   flexible,
		verb:    "add nodes to",
		command: "addNodesToKubernetesCluster",
		setting: "cloud.kubernetes.cluster.add.node.timeout",
		from:    []string{stateRunning},
		during:  []string{"Importing"},
		to:      []string{stateRunning},
		prepare: on(addNodes),
	}
	RemoveNodes = Operation{
		name:    "remove-nodes",
		since:   flexible,
		verb:    "remove nodes from",
		command: "removeNodesFromKubernetesCluster",
		setting: "cloud.kubernetes.cluster.remove.node.timeout",
		from:    []string{stateRunning},
		during:  []string{"RemovingNodes"},
		to:      []string{stateRunning},
		prepare: on(removeNodes),
	}
)

// Options are the flags of an operation. Zone, Version, Network, offerings and templates are names or ids, which are
// resolved to ids before the API call. A zero value leaves the cluster as it is, or leaves the choice to CloudStack.
type Options struct {
	cloudapi.CreateClusterRequest
	Zone, Version, Network string
	Offering               string // of all nodes whose kind has no offering of its own

	ControlOffering, WorkerOffering, EtcdOffering string
	ControlTemplate, WorkerTemplate, EtcdTemplate string

	CNI          string
	CNIParams    []string // KEY=VALUE
	RegistryFile string

	VMs              []string // of nodes that are added or removed
	ManualUpgrade    bool
	MountISOOnRouter bool

	// For csccm cks versions add.
	URL, Checksum, Arch, VersionName string
	MinCPUs, MinMemoryMiB            int
	DirectDownload                   bool

	Autoscaling    string   // MIN-MAX workers, or off
	RemoveServices bool     // delete Services of type LoadBalancer before the cluster
	Ignore         []string // codes of preflight findings that do not stop the operation
	// Install installs csccm into a new cluster; nil installs nothing.
	Install func(ctx context.Context, kubeconfig string) error
}

// Validate checks the options of an operation as far as that needs no connection.
func (o *Options) Validate(op Operation) (err error) {
	switch {
	case op.name == Scale.name:
		_, err = o.scaleRequest()
	case op.name == Upgrade.name && o.Version == "":
		err = report.Usage("name the version to upgrade to; csccm cks versions lists them", "--version is not given")
	}
	return err
}

// on returns a function that looks the cluster up by its name and then calls prepare. It is for operations on clusters
// that exist.
func on(prepare func(
	ctx context.Context, t *task, k *cloudapi.KubernetesCluster,
) error) func(context.Context, *task, string) error {
	return func(ctx context.Context, t *task, name string) error {
		k, err := t.Service.cluster(ctx, name)
		if err != nil {
			return err
		}

		t.found(k)
		t.params = cloudstack.Params{"id": k.ID}
		return prepare(ctx, t, k)
	}
}

// power prepares to start or stop a cluster.
func power(_ context.Context, t *task, _ *cloudapi.KubernetesCluster) error {
	t.differs = func(k *cloudapi.KubernetesCluster) []Change {
		return changes{}.add("state", k.State, t.to[0], k.State == t.to[0])
	}
	return nil
}

// upgrade prepares to upgrade a cluster to another Kubernetes version. CloudStack upgrades one node after another.
func upgrade(ctx context.Context, t *task, k *cloudapi.KubernetesCluster) error {
	versions, err := t.versions(ctx, k.ZoneID)
	if err != nil {
		return err
	}

	to, err := pick("version", " with --version", t.Version, versions, namesOfVersion)
	if err != nil {
		return err
	}

	t.differs = func(k *cloudapi.KubernetesCluster) []Change {
		return changes{}.add("version", k.Version, to.Name, k.VersionID == to.ID)
	}
	t.facts = func(r *ckscheck.Reader) (*ckscheck.Facts, error) { return r.Upgrade(ctx, k) }
	t.rules = func(f *ckscheck.Facts) []ckscheck.Finding { return ckscheck.Upgrade(f, to.ID) }
	t.params["kubernetesversionid"] = to.ID
	return nil
}

// scaleRequest returns the request to CloudStack, without the ids of the offerings. One request changes either the
// number of workers, the offerings or autoscaling.
func (o *Options) scaleRequest() (r cloudapi.ScaleClusterRequest, err error) {
	kinds := 0
	for _, given := range []bool{
		o.Size != 0,
		o.Offering+o.ControlOffering+o.WorkerOffering != "",
		o.Autoscaling != "",
	} {
		if given {
			kinds++
		}
	}

	if kinds != 1 || o.Size < 0 {
		return r, report.Usage(
			"give --size with a number from 1 on, or --offering (or --worker-offering, --control-offering), or "+
				"--autoscaling",
			"CloudStack changes the number of workers, the offerings, or autoscaling, and one of them at a time",
		)
	}

	if r.Size = o.Size; o.Autoscaling == "" {
		return r, nil
	}

	on := o.Autoscaling != "off"
	r.Autoscaling = &on
	low, high, _ := strings.Cut(o.Autoscaling, "-")
	r.MinSize, _ = strconv.Atoi(low)
	r.MaxSize, _ = strconv.Atoi(high)
	if on && (r.MinSize < 1 || r.MaxSize <= r.MinSize) {
		return r, report.Usage(
			"give for example 2-5",
			"--autoscaling %q is neither off nor a range of workers", o.Autoscaling,
		)
	}

	return r, nil
}

// scale prepares to change the number of workers, the offerings or the autoscaling of a cluster.
func scale(ctx context.Context, t *task, k *cloudapi.KubernetesCluster) error {
	r, err := t.scaleRequest()
	if err != nil {
		return err
	}

	if r.Size != 0 {
		t.from = []string{stateRunning}
	}

	if err := t.resolve(ctx, k.ZoneID); err != nil {
		return err
	}

	r.ID = k.ID
	r.OfferingID = t.named["offering"].id
	r.ControlOfferingID = t.named["control-offering"].id
	r.WorkerOfferingID = t.named["worker-offering"].id
	t.differs = func(k *cloudapi.KubernetesCluster) []Change {
		c := t.offeringChanges(k).
			add("workers", strconv.Itoa(k.Size), strconv.Itoa(r.Size), r.Size == 0 || r.Size == k.Size)
		if r.Autoscaling != nil {
			from, to := autoscaling(k.Autoscaling, k.MinSize, k.MaxSize),
				autoscaling(*r.Autoscaling, r.MinSize, r.MaxSize)
			c = c.add("autoscaling", from, to, from == to)
		}
		return c
	}

	t.facts = func(in *ckscheck.Reader) (*ckscheck.Facts, error) { return in.Scale(ctx, k, r) }
	t.rules = func(f *ckscheck.Facts) []ckscheck.Finding { return ckscheck.Scale(f, r) }
	t.params = r.Params()
	return nil
}

// changes are the differences between a cluster and the options.
type changes []Change

// add appends a change, unless same is set.
func (c changes) add(what, from, to string, same bool) changes {
	if same {
		return c
	}
	return append(c, Change{what, from, to})
}

// count appends the change of a number, unless the number stays the same; asked is 0 if the flag is not set.
func (c changes) count(what string, is, asked int) changes {
	return c.add(what, strings.TrimPrefix(strconv.Itoa(is), "0"), strconv.Itoa(asked), asked == 0 || is == asked)
}

// offeringChanges returns how the offerings of a cluster's control nodes and workers differ from the requested ones.
func (t *task) offeringChanges(k *cloudapi.KubernetesCluster) (c changes) {
	all := t.named["offering"]
	for _, x := range []struct {
		what, id, name string
		to             object
	}{
		{"offering of control nodes", k.ControlOfferingID, k.ControlOfferingName, t.named["control-offering"]},
		{"offering of workers", k.WorkerOfferingID, k.WorkerOfferingName, t.named["worker-offering"]},
	} {
		to := cmp.Or(x.to, all)
		c = c.add(x.what, cmp.Or(x.name, k.OfferingName), to.name, to.id == "" || to.id == cmp.Or(x.id, k.OfferingID))
	}
	return c
}

// remove prepares to delete a cluster with its VMs, and with its network if CloudStack created the network for it. In
// any other network the rules and addresses of Services of type LoadBalancer would stay. With RemoveServices these
// Services are deleted first; otherwise the plan names them.
func remove(ctx context.Context, t *task, k *cloudapi.KubernetesCluster) error {
	t.differs = func(k *cloudapi.KubernetesCluster) []Change {
		return []Change{{"state", k.State, "deleted, with its " + report.Count(vms(k), "VM")}}
	}

	t.facts = func(r *ckscheck.Reader) (*ckscheck.Facts, error) {
		f, err := r.Delete(ctx, k)
		if err == nil && t.RemoveServices {
			err = t.removeServices(r, f.Services)
		}
		return f, err
	}

	t.rules = func(f *ckscheck.Facts) []ckscheck.Finding { return ckscheck.Delete(f, t.RemoveServices) }
	return nil
}

// servicesTimeout is how long the controller may take to remove the load balancers of deleted Services.
const servicesTimeout = 5 * time.Minute

// removeServices adds to the plan that the Services of type LoadBalancer are deleted before the cluster. The step
// waits until they no longer exist: only the cluster's own controller removes their rules, and it then removes their
// finalizer.
func (t *task) removeServices(r *ckscheck.Reader, all []corev1.Service) error {
	if r.Kube == nil {
		return report.CheckFailed(
			"run csccm where the cluster's API server answers, or leave --remove-services out: the plan then "+
				"names the addresses and rules that stay",
			"the Services of cluster %s cannot be removed: %v; nothing was changed", t.plan.Name, r.NoKube,
		)
	}

	var remaining []*corev1.Service
	var names []string
	for _, svc := range all {
		if (service.Classes{}).Handles(&svc) {
			name := rules.Key(&svc)
			remaining, names = append(remaining, &svc), append(names, name)
			t.plan.Changes = append(t.plan.Changes,
				Change{What: "before that", To: "delete Service " + name + " with its load balancer"})
		}
	}

	if len(remaining) == 0 {
		return nil
	}

	t.before = []engine.Step{{Name: "delete Services", Do: func(ctx context.Context) error {
		t.Progress.Step("Deleting %s of type LoadBalancer", report.Count(len(remaining), "Service"))
		t.Note("delete Services %s", strings.Join(names, ", "))

		inTime, err := poll.Until(ctx, t.Clock, pollInterval, servicesTimeout, func() (_ bool, err error) {
			remaining = slices.DeleteFunc(remaining, func(svc *corev1.Service) bool {
				failed := r.Kube.CoreV1().Services(svc.Namespace).Delete(ctx, svc.Name, metav1.DeleteOptions{})
				if failed != nil && !apierrors.IsNotFound(failed) {
					err = cmp.Or(err, failed)
				}
				return apierrors.IsNotFound(failed) // until then the Service still has its finalizer
			})
			return len(remaining) == 0, report.Remedied(err, "run the command again: it continues where it stopped")
		})

		if err == nil && !inTime {
			err = report.Errorf(
				"look at the controller with csccm doctor; without --remove-services the cluster is deleted, and "+
					"their rules stay in CloudStack",
				"cluster %s was not deleted: of its Services %d are left after %s, such as %s/%s",
				t.plan.Name, len(remaining), servicesTimeout, remaining[0].Namespace, remaining[0].Name,
			)
		}

		if err == nil {
			t.Progress.Done("their rules are gone")
		}

		return err
	}}}

	return nil
}
