// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/cloud/proxy"
	"github.com/csccm/csccm/test/internal/child"
)

// mostCrashPoints ends a search for the last call that changes something.
const mostCrashPoints = 40

// crashPoints creates and deletes a Service again and again. The controller is killed when CloudStack has done the k-th call
// of its work; a new one finishes it.
func crashPoints(ctx context.Context, e *env) (string, error) {
	alone, err := e.byItself(ctx)
	if err != nil {
		return "", err
	}
	defer alone.end(context.WithoutCancel(ctx))
	before, err := e.addresses(ctx)
	if err != nil {
		return "", err
	}
	creating, deleting := 0, 0
	for k, more := 1, true; more && k <= mostCrashPoints; k++ {
		name := fmt.Sprintf("web%d", k)
		crashed, err := alone.crash(ctx, k, func() error { _, err := e.create(ctx, name, ports(80, 443)); return err }, func() error {
			ip, err := e.address(ctx, name)
			if err != nil {
				return err
			}
			return e.serves(ctx, ip, "80", "443")
		})
		if err != nil {
			return "", fmt.Errorf("killed at call %d of the creation: %w", k, err)
		}
		if now, err := e.addresses(ctx); err != nil || len(now) != len(before)+1 {
			return "", errors.Join(err, fmt.Errorf("killed at call %d of the creation: %d addresses are held, want %d", k, len(now), len(before)+1))
		}
		crashedToo, err := alone.crash(ctx, k, func() error {
			return e.cluster.Client.CoreV1().Services(e.namespace).Delete(ctx, name, metav1.DeleteOptions{})
		}, func() error { return e.gone(ctx, name) })
		if err != nil {
			return "", fmt.Errorf("killed at call %d of the deletion: %w", k, err)
		}
		if now, err := e.addresses(ctx); err != nil || len(now) != len(before) {
			return "", errors.Join(err, fmt.Errorf("killed at call %d of the deletion: %d addresses are held, want %d", k, len(now), len(before)))
		}
		if crashed {
			creating++
		}
		if crashedToo {
			deleting++
		}
		more = crashed || crashedToo
	}
	return fmt.Sprintf("%d crash points of a creation, %d of a deletion, each finished by the next process", creating, deleting), e.nothingStranded(ctx)
}

// gone waits until a Service is gone.
func (e *env) gone(ctx context.Context, name string) error {
	return e.until(ctx, "Service "+name+" to go", func(ctx context.Context) error {
		_, err := e.get(ctx, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.New("it is there; its Events: " + e.events(ctx, "Service", name))
	})
}

// byItself is the controller's program as a process of this machine, in the place of its Pods: it can be killed at once, and
// its next life does not wait for a lease.
type byItself struct {
	e       *env
	config  string // its cloud-config
	log     string
	process *child.Process
}

// byItself ends the controller's Pods and starts the program.
func (e *env) byItself(ctx context.Context) (*byItself, error) {
	secret, err := e.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, secretName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	b := &byItself{e: e, config: filepath.Join(e.home, "cloud-config"), log: filepath.Join(e.home, "controller.log")}
	if err := os.WriteFile(b.config, secret.Data["cloud-config"], 0o600); err != nil {
		return nil, err
	}
	if err := e.scale(ctx, 0); err != nil {
		return nil, err
	}
	return b, b.start(ctx)
}

// end stops the program and brings the Pods back.
func (b *byItself) end(ctx context.Context) {
	b.kill()
	_ = os.Remove(b.config)
	if err := b.e.scale(ctx, 1); err != nil {
		b.e.Say("%v", err)
	}
}

func (b *byItself) start(ctx context.Context) error {
	var err error
	b.process, err = child.Start(ctx, child.Command{
		Name: "cloudstack-ccm", Path: b.e.Programs.Controller, Log: b.log, Dir: b.e.home, Env: []string{"TMPDIR=" + b.e.dir},
		Args: []string{
			"--cloud-provider=external-cloudstack", "--cloud-config=" + b.config, "--kubeconfig=" + b.e.cluster.Kubeconfig,
			"--leader-elect=false", "--secure-port=0", "--v=1",
		},
	})
	return err
}

func (b *byItself) kill() {
	if b.process != nil {
		b.process.Stop(0)
	}
}

// crash kills the program at the k-th call that changes something, after work has begun, and starts it again. It reports
// whether there was such a call. done waits for the end of the work.
func (b *byItself) crash(ctx context.Context, k int, begin, done func() error) (crashed bool, err error) {
	dead := make(chan struct{})
	f, at := proxy.CrashAt(k, func() { b.kill(); close(dead) })
	undo := b.e.proxy.SetFault(f)
	defer undo()
	if err := begin(); err != nil {
		return false, err
	}
	finished := make(chan error, 1)
	go func() { finished <- done() }()
	select {
	case err := <-finished: // fewer calls than k
		return false, err
	case <-dead:
	}
	undo()
	if err := b.start(ctx); err != nil {
		return true, err
	}
	if err := <-finished; err != nil {
		return true, fmt.Errorf("%s: %w; the log ends with: %s", at(), err, child.Tail(b.log, 5))
	}
	return true, nil
}

// scale sets the replicas of the controller's Deployment and waits for its Pods.
func (e *env) scale(ctx context.Context, replicas int32) error {
	d := e.cluster.Client.AppsV1().Deployments(metav1.NamespaceSystem)
	s, err := d.GetScale(ctx, deployment, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s.Spec.Replicas = replicas
	if _, err := d.UpdateScale(ctx, deployment, s, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return e.until(ctx, fmt.Sprintf("%d Pods of the controller", replicas), func(ctx context.Context) error {
		now, err := d.Get(ctx, deployment, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pods, err := e.cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(now.Spec.Selector)})
		if err != nil {
			return err
		}
		if now.Status.ReadyReplicas != replicas || len(pods.Items) != int(replicas) {
			return fmt.Errorf("%d of %d Pods are ready", now.Status.ReadyReplicas, len(pods.Items))
		}
		return nil
	})
}
