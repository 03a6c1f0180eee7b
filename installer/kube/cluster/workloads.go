// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// Labels of the chart's objects.
const (
	ChartName     = "cloudstack-ccm"
	NameLabel     = "app.kubernetes.io/name"
	InstanceLabel = "app.kubernetes.io/instance"
)

// OfRelease returns list options that select the objects of a release of csccm's chart.
func OfRelease(release string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: NameLabel + "=" + ChartName + "," + InstanceLabel + "=" + release}
}

// InRelease reports whether an object with these labels is one of a release of csccm's chart.
func InRelease(labels map[string]string, release string) bool {
	return labels[NameLabel] == ChartName && labels[InstanceLabel] == release
}

// Workload has what Deployments and DaemonSets have in common.
type Workload struct {
	Kind     string
	Meta     *metav1.ObjectMeta
	Selector *metav1.LabelSelector
	Pod      *corev1.PodSpec
	// Observed reports whether the status is that of the current generation.
	Observed                          bool
	Wanted, Ready, Updated, Available int32
	Old                               int32 // Pods of older templates that still exist
	// Problem is the reason why the workload has no Pods; "" if none is known.
	Problem string
	// Pods of the current template have the label PodLabel with the value Newest; if Newest is empty, all Pods count.
	PodLabel, Newest string
}

func (w *Workload) String() string { return w.Kind + " " + w.Meta.Namespace + "/" + w.Meta.Name }

// DeploymentOf returns a Deployment as a workload, without Newest: its ReplicaSets have that hash.
func DeploymentOf(d *appsv1.Deployment) Workload {
	w := Workload{
		Kind:      "Deployment",
		Meta:      &d.ObjectMeta,
		Selector:  d.Spec.Selector,
		Pod:       &d.Spec.Template.Spec,
		Observed:  d.Status.ObservedGeneration >= d.Generation,
		Wanted:    ptr.Deref(d.Spec.Replicas, 1),
		Ready:     d.Status.ReadyReplicas,
		Updated:   d.Status.UpdatedReplicas,
		Available: d.Status.AvailableReplicas,
		Old:       d.Status.Replicas - d.Status.UpdatedReplicas,
		PodLabel:  appsv1.DefaultDeploymentUniqueLabelKey,
	}

	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			w.Problem = "no Pod can be created: " + c.Message
		}
	}

	return w
}

// daemonSetOf returns a DaemonSet as a workload. It identifies current Pods by the generation of the template, because
// reading ControllerRevisions would need an additional permission.
func daemonSetOf(d *appsv1.DaemonSet) Workload {
	return Workload{
		Kind:      "DaemonSet",
		Meta:      &d.ObjectMeta,
		Selector:  d.Spec.Selector,
		Pod:       &d.Spec.Template.Spec,
		Observed:  d.Status.ObservedGeneration >= d.Generation,
		Wanted:    d.Status.DesiredNumberScheduled,
		Ready:     d.Status.NumberReady,
		Updated:   d.Status.UpdatedNumberScheduled,
		Available: d.Status.NumberAvailable,
		PodLabel:  extensionsv1beta1.DaemonSetTemplateGenerationKey,
		Newest:    d.Annotations[appsv1.DeprecatedTemplateGeneration],
	}
}

// Workloads returns the Deployments of a namespace, followed by the DaemonSets.
func Workloads(
	ctx context.Context, kube kubernetes.Interface, namespace string, o metav1.ListOptions,
) (all []Workload, err error) {
	deployments := ListOf(ctx, &err, o, kube.AppsV1().Deployments(namespace).List).Items
	for _, d := range deployments {
		all = append(all, DeploymentOf(&d))
	}
	daemonSets := ListOf(ctx, &err, o, kube.AppsV1().DaemonSets(namespace).List).Items
	for _, d := range daemonSets {
		all = append(all, daemonSetOf(&d))
	}
	return all, err
}

// ReleaseElsewhere returns the namespace of this release if it is not c.Namespace. It returns "" if the release is in
// c.Namespace, does not exist, or cannot be looked up.
func (c *Cluster) ReleaseElsewhere(ctx context.Context, release string) string {
	all, err := Workloads(ctx, c.Kube, metav1.NamespaceAll, OfRelease(release))
	var namespaces []string
	for _, w := range all {
		namespaces = append(namespaces, w.Meta.Namespace)
	}
	if err != nil || len(namespaces) == 0 || slices.Contains(namespaces, c.Namespace) {
		return ""
	}

	// If somebody has deleted the Deployment, Helm's Secret still shows that the release is in c.Namespace.
	records, err := c.Kube.CoreV1().Secrets(c.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: "owner=helm,name=" + release, Limit: 1})
	if err == nil && len(records.Items) > 0 {
		return ""
	}
	return slices.Min(namespaces)
}

// shellScript matches the flag of a shell whose value is a script.
var shellScript = regexp.MustCompile("^-[a-z]*c$")

// variable matches a reference to an environment variable in a command line, or an escaped dollar sign.
var variable = regexp.MustCompile(`\$\$|\$\([\w.-]+\)`)

// Arguments returns the command line of a container, with the values of environment variables that its manifest has.
// The script of a shell is split into words, because a program may be started as sh -c "exec PROGRAM --flag=value".
func Arguments(c *corev1.Container) []string {
	env := map[string]string{}
	expand := func(text string) string {
		return variable.ReplaceAllStringFunc(text, func(reference string) string {
			if reference == "$$" {
				return "$"
			}
			if value, set := env[reference[2:len(reference)-1]]; set {
				return value
			}
			return reference
		})
	}

	for _, v := range c.Env {
		if v.ValueFrom == nil {
			env[v.Name] = expand(v.Value)
		}
	}

	words := slices.Concat(c.Command, c.Args)
	for i := range words {
		words[i] = expand(words[i])
	}

	if i := slices.IndexFunc(words, shellScript.MatchString); i >= 0 {
		script := os.Expand(strings.Join(words[i:], " "), func(name string) string {
			name, fallback, _ := strings.Cut(name, ":-")
			return cmp.Or(env[name], fallback)
		})
		words = append(words[:i], strings.Fields(script)...)
	}
	return words
}

// Argument returns the value of a flag, given as --name=value or --name value; the last occurrence counts.
func Argument(args []string, name string) (value string, found bool) {
	for i, a := range args {
		a, isFlag := strings.CutPrefix(a, "-")
		key, v, joined := strings.Cut(strings.TrimPrefix(a, "-"), "=")
		switch {
		case !isFlag || key != name:
			continue
		case joined:
			value = strings.Trim(v, `"'`)
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
			value = args[i+1]
		default:
			value = "true"
		}
		found = true
	}
	return value, found
}

// Ended reports whether a Pod in this phase has ended.
func Ended(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// OwnerOf returns the object that created a Pod, and would create it again. It is the Pod itself if there is none, and
// for a static Pod.
func OwnerOf(p *corev1.Pod) (kind, name string) {
	c := metav1.GetControllerOf(p)
	if c == nil || c.Kind == "Node" {
		return "Pod", p.Name
	}
	// A Deployment names its ReplicaSets by its own name and the hash of the template.
	if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; c.Kind == "ReplicaSet" && hash != "" {
		if name, ok := strings.CutSuffix(c.Name, "-"+hash); ok {
			return "Deployment", name
		}
	}
	return c.Kind, c.Name
}

// PodReady reports whether a Pod is ready.
func PodReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// PodProblem returns the reason why a Pod does not work; "" if it is starting normally, or works. A container that has
// ended before is named with its last end.
func PodProblem(p *corev1.Pod) string {
	if why := because(p.Status.Reason, p.Status.Message); why != "" { // such as Evicted
		return why
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "not scheduled: " + c.Message
		}
	}

	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		problem := "runs, but is not ready"
		waits, ended := c.State.Waiting, cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
		switch {
		case waits != nil && waits.Reason != "ContainerCreating" && waits.Reason != "PodInitializing":
			problem = because(waits.Reason, waits.Message)
		case p.Status.Phase == corev1.PodFailed:
			problem = "ended"
		case c.State.Running == nil || p.Status.Phase == corev1.PodPending: // an init container may run
			continue
		case c.RestartCount > 0:
			problem = "restarts"
		case c.Ready:
			continue
		}

		if ended != nil {
			problem += " (" + because(fmt.Sprintf("last exit code %d", ended.ExitCode),
				because(ended.Reason, ended.Message)) + ")"
			if strings.Contains(ended.Message, "address already in use") {
				problem += "; free the port on node " + p.Spec.NodeName +
					", or choose another one with --set securePort=PORT"
			}
		}

		return problem
	}

	return ""
}

// because joins a reason and a message in one line; either may be empty.
func because(reason, message string) string {
	return strings.Trim(strings.Join(strings.Fields(reason+": "+message), " "), ": ")
}
