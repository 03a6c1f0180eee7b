// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package lbtest

import (
	"cmp"
	"context"
	_ "embed" // the Pod
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/kube/cluster"
	planner "github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/installer/poll"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/echo"
	"github.com/csccm/csccm/pkg/service"
)

const (
	prefix = "csccm-test-"
	// label marks all objects of a test; its value is the test's id.
	label = "csccm.io/load-balancer-test"

	logLines = 50 // lines to read from the end of the client Pod's log
)

// meta returns the metadata of an object of the test.
func (t *Tester) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: t.result.Namespace,
		Name:      prefix + name + "-" + t.id,
		Labels:    map[string]string{label: t.id, "app.kubernetes.io/managed-by": "csccm"},
	}
}

// wait polls until look returns no reason to wait. It shows each new reason.
func (t *Tester) wait(
	ctx context.Context, limit time.Duration, look func(context.Context) (why string, err error),
) error {
	said, why := "", ""
	inTime, err := poll.Until(ctx, t.Clock, interval, limit, func() (_ bool, err error) {
		if why, err = look(ctx); err == nil && why != said && why != "" {
			said = why
			t.Progress.Info("%s", why)
		}
		return why == "", err
	})

	if err == nil && !inTime {
		err = fmt.Errorf("not within %s: %s", limit, why)
	}

	return err
}

func (t *Tester) makeNamespace(ctx context.Context) (string, error) {
	if t.Namespace != "" {
		_, err := t.Cluster.Kube.CoreV1().Namespaces().Get(ctx, t.Namespace, metav1.GetOptions{})
		return t.Namespace, err
	}

	m := t.meta("")
	m.Namespace, m.Name = "", t.result.Namespace
	_, err := t.Cluster.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: m}, metav1.CreateOptions{})
	return t.result.Namespace, err
}

//go:embed pod.yaml
var podManifest []byte

// run creates a Pod and waits until it reaches a phase that until accepts.
func (t *Tester) run(
	ctx context.Context, name string, limit time.Duration, until func(corev1.PodPhase) bool, args ...string,
) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(podManifest, p); err != nil {
		return nil, err
	}

	args = append(args, "--"+echo.TokenFlag+"="+t.id)
	p.ObjectMeta, p.Spec.Containers[0].Image, p.Spec.Containers[0].Args = t.meta(name), t.Image, args
	p.Labels[label+"-pod"] = name

	pods := t.Cluster.Kube.CoreV1().Pods(t.result.Namespace)
	if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return nil, err
	}

	err := t.wait(ctx, limit, func(ctx context.Context) (string, error) {
		now, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil || until(now.Status.Phase) {
			p = now
			return "", err
		}

		if cluster.Ended(now.Status.Phase) {
			return "", t.ended(ctx, now)
		}

		return cmp.Or(cluster.PodProblem(now), "the Pod does not run yet"), nil
	})

	return p, err
}

func (t *Tester) makePod(ctx context.Context) (string, error) {
	running := func(phase corev1.PodPhase) bool { return phase == corev1.PodRunning }
	p, err := t.run(ctx, "server", podTime, running, fmt.Sprintf("--%s=$(POD_IP):%d", echo.ServeFlag, portPod))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/%s runs on node %s", p.Namespace, p.Name, p.Spec.NodeName), nil
}

// ended returns the error of a Pod that ended too early, with the last line of its log.
func (t *Tester) ended(ctx context.Context, p *corev1.Pod) error {
	log, _ := t.PodLogs(ctx, p, 1)
	return errors.New(strings.TrimSuffix(
		fmt.Sprintf("Pod %s/%s ended: %s", p.Namespace, p.Name, strings.TrimSpace(log)), ": ",
	))
}

func (t *Tester) makeService(ctx context.Context) (string, error) {
	s := &corev1.Service{ObjectMeta: t.meta("lb"), Spec: corev1.ServiceSpec{
		Type:     corev1.ServiceTypeLoadBalancer,
		Selector: map[string]string{label: t.id, label + "-pod": "server"},
		Ports:    []corev1.ServicePort{{Name: "plain", Port: portPlain, TargetPort: intstr.FromInt32(portPod)}},
	}}

	controller, _, err := planner.Options(ctx, t.Cluster.Kube, t.Cluster.Namespace, t.Release)
	if class := &controller.LBClasses.Own; *class != "" {
		s.Spec.LoadBalancerClass = class
	}

	if !t.NoProxy {
		s.Spec.Ports = append(s.Spec.Ports,
			corev1.ServicePort{Name: "proxied", Port: portProxy, TargetPort: intstr.FromInt32(portPod)})
		s.Annotations = map[string]string{annotation.ProxyProtocol: "proxied"}
	}

	services := t.Cluster.Kube.CoreV1().Services(t.result.Namespace)
	if err == nil {
		_, err = services.Create(ctx, s, metav1.CreateOptions{})
	}

	if err != nil {
		return "", err
	}

	err = t.wait(ctx, t.AddressTime, func(ctx context.Context) (string, error) {
		now, err := services.Get(ctx, s.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}

		if in := now.Status.LoadBalancer.Ingress; len(in) > 0 {
			t.result.Address = cmp.Or(in[0].IP, in[0].Hostname)
			t.silent = t.result.Address
			return "", nil
		}

		why := fmt.Sprintf("Service %s/%s has no address yet", s.Namespace, s.Name)
		if ready := service.Ready(now); ready.Type != "" {
			why += ": " + ready.Reason + ": " + ready.Message
		}

		return why, nil
	})

	return fmt.Sprintf("Service %s/%s has %s", s.Namespace, s.Name, t.result.Address), err
}

func (t *Tester) askInside(ctx context.Context) (string, error) {
	p, err := t.run(ctx, "client", podTime+askTime, cluster.Ended,
		"--"+echo.AskFlag+"="+strings.Join(t.targets(), ","))
	if err != nil {
		return "", err
	}

	log, err := t.PodLogs(ctx, p, logLines)
	if err != nil {
		return "", err
	}

	var answers []echo.Answer
	for line := range strings.SplitSeq(log, "\n") {
		var a echo.Answer
		if json.Unmarshal([]byte(line), &a) == nil && a.Address != "" {
			answers = append(answers, a)
		}
	}

	if len(answers) != len(t.targets()) {
		return "", t.ended(ctx, p)
	}

	return judge(answers)
}

// remove deletes the objects of the test, and waits until they no longer exist: the controller releases the address
// before the Service disappears. It repeats the delete calls, which do not affect objects that are being deleted.
func (t *Tester) remove(ctx context.Context) (string, error) {
	core, ns := t.Cluster.Kube.CoreV1(), t.result.Namespace
	return "everything is deleted", t.wait(ctx, removalTime, func(ctx context.Context) (why string, err error) {
		remove := func(kind, name string, call func(context.Context, string, metav1.DeleteOptions) error) {
			failed := call(ctx, name, metav1.DeleteOptions{})
			switch {
			case apierrors.IsNotFound(failed):
			case failed == nil || apierrors.IsConflict(failed): // being deleted
				why = cmp.Or(why, kind+" "+name+" is being deleted")
			default:
				err = cmp.Or(err, failed)
			}
		}

		remove("Service", t.meta("lb").Name, core.Services(ns).Delete)
		remove("Pod", t.meta("server").Name, core.Pods(ns).Delete)
		remove("Pod", t.meta("client").Name, core.Pods(ns).Delete)
		if t.Namespace == "" && why == "" && err == nil {
			remove("namespace", ns, core.Namespaces().Delete)
		}

		return why, err
	})
}

// controllerImage returns the image of the release's controller.
func controllerImage(ctx context.Context, kube kubernetes.Interface, namespace, release string) (string, error) {
	all, err := cluster.Workloads(ctx, kube, namespace, cluster.OfRelease(release))
	if err != nil {
		return "", err
	}

	if len(all) == 0 {
		return "", report.Usage(
			"run csccm install, or name the release with --release and --namespace",
			"release %s has no controller in namespace %s, so nothing would give the Service an address",
			release, namespace,
		)
	}

	return all[0].Pod.Containers[0].Image, nil
}
