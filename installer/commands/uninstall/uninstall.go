// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package uninstall removes the controller from a cluster and reports what it keeps. It keeps what the controller
// created in CloudStack for Services, because load balancers carry traffic, and what it wrote to nodes, because
// provider IDs cannot be changed.
package uninstall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cloud-provider/service/helpers"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/helm"
	planner "github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/rollout"
	"github.com/csccm/csccm/installer/takeover"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/registration"
)

// Options of an uninstall.
type Options struct {
	// OrphanLoadBalancers removes the controller even if Services of type LoadBalancer exist.
	OrphanLoadBalancers bool
	// DeleteSecret also removes the Secret with the credentials and the ConfigMap with the CA certificates.
	DeleteSecret bool
	// DeleteUser also removes what csccm created in CloudStack: user, keys, account and role.
	DeleteUser bool
	// Admin opens the session for DeleteUser.
	Admin engine.LogIn
}

// run is the state of one uninstall.
type run struct {
	*engine.Env
	Options
	plan     *engine.Plan
	steps    []engine.Step
	deployed bool           // there is a Helm release
	refusal  error          // set if load balancers forbid the uninstall
	owner    *access.Cloud  // CloudStack with the controller's keys; nil if they cannot be used
	keys     *access.Secret // Secret that the release reads
	ended    []string       // API keys that the uninstall ends
	secret   bool           // the uninstall deletes the Secret
	closers  []func()
}

// Run removes the controller from the cluster.
func Run(ctx context.Context, e *engine.Env, o Options) error {
	u := &run{Env: e, Options: o, plan: e.NewPlan()}
	defer func() {
		for _, end := range u.closers {
			end()
		}
	}()

	if err := u.makePlan(ctx); err != nil {
		return err
	}

	return e.Run(ctx, engine.Operation{
		Name:     "uninstall",
		What:     "remove what the plan lists",
		Question: prompt.Question{Message: "Uninstall"},
		Plan:     u.plan,
		Steps:    u.steps,
		Check:    func(context.Context) error { return u.refusal },
	})
}

// delete adds a step that deletes something. The step succeeds if the object no longer exists.
func (u *run) delete(what string, do func(context.Context) error) {
	u.plan.Add("delete", what, nil)
	u.steps = append(u.steps, engine.Step{Name: what, Shielded: true, Do: func(ctx context.Context) error {
		u.Progress.Step("%s", what)
		if err := do(ctx); err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, helm.ErrReleaseNotFound) {
			return err
		}

		u.Note("deleted %s", what)
		u.Progress.Done("deleted")
		return nil
	}})
}

// keep adds to the plan what the uninstall keeps.
func (u *run) keep(format string, args ...any) {
	u.plan.Add("keep", fmt.Sprintf(format, args...), nil)
}

func (u *run) warn(format string, args ...any) {
	u.plan.Warnings = append(u.plan.Warnings, fmt.Sprintf(format, args...))
}

// makePlan makes the plan and the steps. All other steps come after the wait for the end of the Pods, because nothing
// else may take over while the controller still runs.
func (u *run) makePlan(ctx context.Context) error {
	r, err := u.Find(ctx)
	if err != nil {
		return err
	}

	if r == nil {
		w, _, err := rollout.Read(ctx, u.Env)
		if err == nil {
			return report.Refused(
				"delete the source of the objects: the GitOps application, or csccm template | kubectl delete -f "+
					"-; then csccm "+
					"uninstall removes the rest",
				"%s was not installed by Helm", w,
			)
		}

		if !errors.Is(err, rollout.ErrNoWorkload) {
			return err
		}
	} else {
		u.deployed = true
		u.delete(
			fmt.Sprintf("Helm release %s/%s, chart %s", u.Cluster.Namespace, u.Release, r.ChartVersion),
			func(ctx context.Context) error { return u.Helm.Uninstall(ctx, u.Release) },
		)
	}

	u.steps = append(u.steps, engine.Step{Name: "Pods", ReadOnly: true, Do: func(ctx context.Context) error {
		u.Progress.Step("Waiting for the controller's Pods to end")
		return rollout.AwaitEnd(ctx, u.Env, "the controller", u.Cluster.Namespace, cluster.OfRelease(u.Release))
	}})

	for _, read := range []func(context.Context) error{
		u.stopped, u.services, u.cloud, u.credentials, u.others, u.nodes,
	} {
		if err := read(ctx); err != nil {
			return err
		}
	}

	if len(u.steps) == 1 { // only the wait for the Pods: there is nothing to delete
		u.steps = nil
		u.plan.Add("delete", "nothing: there is nothing to remove", nil)
	}

	return nil
}

// stopped warns about other providers that have no Pods, because after the uninstall no controller would run.
func (u *run) stopped(ctx context.Context) error {
	old, err := family.Replaceable(ctx, u.Cluster.Kube)
	if apierrors.IsForbidden(err) { // the user may not list the workloads of other namespaces
		return nil
	}

	for _, p := range old {
		switch {
		case p.Wanted > 0:
		case p.Before > 0:
			u.warn("%s has no Pods since a takeover stopped it, and no controller would work: %s", &p, takeover.WayBack)
		default:
			u.warn("%s has no Pods, and no controller would work", &p)
		}
	}

	return err
}

// services lists the load balancers that remain, and refuses the uninstall because of them unless OrphanLoadBalancers
// is set.
func (u *run) services(ctx context.Context) (err error) {
	finalized, names := 0, []string{} // finalized counts the Services with the finalizer
	options, _, err := planner.Options(ctx, u.Cluster.Kube, u.Cluster.Namespace, u.Release)
	for _, s := range cluster.Services(ctx, &err, u.Cluster.Kube) {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || !options.LBClasses.Handles(&s) {
			continue
		}

		if helpers.HasLBFinalizer(&s) {
			finalized++
		}

		name := rules.Key(&s)
		names = append(names, name)
		u.keep("load balancer of Service %s in CloudStack: address %s with its rules", name,
			cmp.Or(strings.Join(check.Ingress(&s), ", "), "none shown"))
	}

	if len(names) > 0 && u.deployed && !u.OrphanLoadBalancers {
		u.refusal = report.Refused(
			"delete these Services first, or leave their load balancers in CloudStack as they are with "+
				"--orphan-load-balancers",
			"there are Services of type LoadBalancer (%s), and without the controller nobody changes their rules or "+
				"releases their addresses",
			strings.Join(names[:min(5, len(names))], ", "),
		)
	}

	if finalized > 0 {
		u.warn("finalizer %s of %s: without a controller nobody can delete them; kubectl edit service removes it",
			helpers.LoadBalancerCleanupFinalizer, report.Count(finalized, "Service"))
	}

	return err
}

// credentials plans to delete or keep the Secret and the ConfigMap with the CA certificates.
func (u *run) credentials(ctx context.Context) error {
	core, ns := u.Cluster.Kube.CoreV1(), u.Cluster.Namespace
	if u.keys.Exists {
		useless := u.keys.Config != nil && slices.Contains(u.ended, u.keys.Config.APIKey)
		u.secret = u.DeleteSecret || useless
		u.object("Secret", u.keys.Name, u.secret, core.Secrets(ns).Delete)
	}

	_, err := core.ConfigMaps(ns).Get(ctx, access.CAConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err == nil:
		u.object("ConfigMap", access.CAConfigMap, u.DeleteSecret, core.ConfigMaps(ns).Delete)
	}

	return err
}

// object plans to delete or keep a Secret or ConfigMap.
func (u *run) object(
	kind, name string, deletes bool, call func(ctx context.Context, name string, o metav1.DeleteOptions) error,
) {
	text := fmt.Sprintf("%s %s/%s", kind, u.Cluster.Namespace, name)
	if !deletes {
		u.keep("%s (--delete-secret removes it)", text)
		return
	}

	u.delete(text, func(ctx context.Context) error { return call(ctx, name, metav1.DeleteOptions{}) })
}

// others returns an error if something else uses credentials that the uninstall removes: other Pods that read the
// Secret, or other Secrets with keys that end.
func (u *run) others(ctx context.Context) error {
	if !u.secret && len(u.ended) == 0 {
		return nil
	}

	found, err := u.keys.Users(ctx, u.Cluster.Kube, u.ended)
	if err != nil {
		return err
	}

	var who []string
	for _, user := range found.Users {
		others := slices.ContainsFunc(user.Pods, func(pod *corev1.Pod) bool {
			return !cluster.InRelease(pod.Labels, u.Release)
		})
		if u.secret && others {
			who = append(who, user.String())
		}
	}

	for _, c := range found.Copies {
		if c.String() != u.keys.String() {
			who = append(who, "Secret "+c.String())
		}
	}

	for _, what := range found.NotRead {
		u.warn("you may not list %s, which may contain the same keys, and the uninstall revokes these keys", what)
	}

	if len(who) == 0 {
		return nil
	}

	return report.Refused(
		"give them keys of their own first, or leave out --delete-secret and --delete-user",
		"others use these credentials: %s", strings.Join(who, ", "),
	)
}

// nodes lists what remains on the nodes, and warns if CKS would install its own provider again.
func (u *run) nodes(ctx context.Context) (err error) {
	list := cluster.Nodes(ctx, &err, u.Cluster.Kube)
	if err != nil {
		return err
	}

	u.keep("provider IDs, labels and addresses of the nodes")
	distribution, _, err := u.Cluster.Distribution(ctx, list)
	if distribution == cluster.CKS {
		u.warn("CloudStack's Kubernetes Service installs its own provider again as soon as no Pod is named " +
			"cloud-controller-manager")
	}

	return err
}

// cloud plans what is removed from CloudStack, and names what remains there.
func (u *run) cloud(ctx context.Context) error {
	created, err := credentials.ReadCreated(ctx, u.Cluster.Kube, u.Cluster.Namespace)
	if err != nil {
		return err
	}

	if u.keys, err = access.SecretOf(ctx, u.Cluster, u.Release); err != nil {
		return err
	}

	var unusable *report.Error
	u.owner, err = u.keys.Open(ctx, u.Cluster)
	switch {
	case err == nil:
		u.closers = append(u.closers, u.owner.Close)
		u.entry(ctx)
	case !errors.As(err, &unusable) || unusable.Code != report.ExitUsage:
		return err
	}

	switch {
	case len(created.Objects) == 0 && (!u.DeleteUser || u.owner == nil):
		u.keep("the controller's user and keys in CloudStack: no list says that csccm created them (--delete-user " +
			"finds users by the cluster's mark)")
		return nil
	case !u.DeleteUser:
		for _, o := range created.Objects {
			u.keep("%s in CloudStack, created by csccm (--delete-user removes it)", o.String())
		}
		return nil
	}

	if len(created.Objects) == 0 { // the list was lost, or csccm made nothing
		created.APIURL, created.SSLNoVerify = u.owner.Config.APIURL, u.owner.Config.SSLNoVerify
	}

	login := cloudconfig.Default()
	if u.owner != nil && strings.EqualFold(u.owner.Config.APIURL, created.APIURL) {
		login = *u.owner.Config
	}

	login.APIURL, login.SSLNoVerify = created.APIURL, created.SSLNoVerify
	login.APIKey, login.SecretKey, login.ProjectID = "", "", ""
	admin, end, err := u.Admin(ctx, u.Env, &login)
	if err != nil {
		return err
	}

	u.closers = append(u.closers, end)
	removal, err := credentials.PlanRemoval(ctx, admin, created)
	if err != nil {
		return err
	}

	u.ended = removal.APIKeys
	if len(created.Objects) == 0 {
		u.keep("the controller's user and keys in CloudStack: neither a list nor the cluster's mark says that " +
			"csccm created them")
	}

	for _, text := range removal.Remaining {
		u.keep("%s", text)
	}

	for _, s := range removal.Steps {
		u.delete(s.Text, func(ctx context.Context) error { return s.Do(ctx, admin, u.Cluster) })
	}

	return nil
}

// entryTimeout limits how long the calls for the entry in CloudStack's UI may take, so that a CloudStack that does not
// answer does not delay the uninstall.
const entryTimeout = 10 * time.Second

// entry plans to delete the cluster's entry in CloudStack's UI, which the controller maintains (chart value
// registerCluster). Errors do not stop the uninstall.
func (u *run) entry(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, entryTimeout)
	defer cancel()

	cs := u.owner
	uid, err := cluster.UID(ctx, u.Cluster.Kube)
	if err != nil {
		return
	}

	project, err := cs.Project(ctx)
	if err != nil {
		return
	}

	// The client of pkg/cloudstack reads fewer fields, but all that registration.Own needs.
	entries, err := cs.Client.Client.ListKubernetesClusters(ctx, project)
	own := registration.Own(entries, uid)
	if err != nil || own == nil {
		return
	}

	u.delete("entry "+own.Name+" in CloudStack's UI; no VM is changed", func(ctx context.Context) error {
		// cleanup=false: CloudStack does not delete the VMs.
		err := cs.Client.Do(ctx, "deleteKubernetesCluster", cloudstack.Params{"id": own.ID, "cleanup": "false"})
		if err != nil {
			u.Progress.Warn("the entry stays: %v; delete it in CloudStack's UI", err)
		}

		return nil
	})
}
