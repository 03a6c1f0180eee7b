// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addressScenarios are about who has an address and who releases it.
func addressScenarios(at string) []scenario {
	return []scenario{
		{name: at + ": address of the account", at: at, run: ownAddress},
		{name: at + ": shared and kept address", at: at, run: sharedAndKept},
		{name: at + ": address changed live", at: at, run: addressChanges},
	}
}

// ownAddress uses an address that an operator acquired; it is never released.
func ownAddress(ctx context.Context, e *env) (string, error) {
	ip, id, err := e.acquire(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = e.release(context.WithoutCancel(ctx), id) }()
	got, err := e.served(ctx, "web", set("address", ip))
	if err != nil {
		return "", err
	}
	if got != ip {
		return "", fmt.Errorf("served at %s, want %s", got, ip)
	}
	if err := e.serves(ctx, ip, "80"); err != nil {
		return "", err
	}
	if err := e.remove(ctx, "web"); err != nil {
		return "", err
	}
	left, err := e.addresses(ctx)
	if err != nil {
		return "", err
	}
	if left[ip] == "" {
		return "", fmt.Errorf("the controller released %s, which an operator had acquired", ip)
	}
	if rules, err := e.rules(ctx, ip); err != nil || len(rules) > 0 {
		return "", errors.Join(err, fmt.Errorf("%d rules are left at %s", len(rules), ip))
	}
	return "used, its rules removed, not released", nil
}

// sharedAndKept shares an address in a namespace and with another one, and keeps it when its Service goes.
func sharedAndKept(ctx context.Context, e *env) (string, error) {
	other := &env{place: e.place, namespace: e.namespace[:min(len(e.namespace), 56)] + "-other"}
	if err := other.makeNamespace(ctx); err != nil {
		return "", err
	}
	defer func() { _ = other.removeAll(context.WithoutCancel(ctx)) }()
	ip, err := e.served(ctx, "first", set("keep-ip", "true"))
	if err != nil {
		return "", err
	}
	if _, err := e.served(ctx, "second", set("address", ip), ports(443)); err != nil {
		return "", err
	}
	if _, err := other.create(ctx, "third", set("address", ip), ports(8443)); err != nil {
		return "", err
	}
	if _, err := other.event(ctx, "Service", "third", "NotAllowed"); err != nil {
		return "", fmt.Errorf("a Service of another namespace without leave: %w", err)
	}
	if err := e.edit(ctx, "first", set("share-with", other.namespace)); err != nil {
		return "", err
	}
	// A change of the Service ends its wait for the next attempt.
	if err := other.edit(ctx, "third", ports(8443, 8444)); err != nil {
		return "", err
	}
	if _, err := other.address(ctx, "third"); err != nil {
		return "", err
	}
	if err := e.serves(ctx, ip, "80", "443", "8443", "8444"); err != nil {
		return "", err
	}
	if err := errors.Join(other.remove(ctx, "third"), e.remove(ctx, "second", "first")); err != nil {
		return "", err
	}
	kept, err := e.addresses(ctx)
	if err != nil {
		return "", err
	}
	if kept[ip] == "" {
		return "", fmt.Errorf("%s was to be kept, and is released", ip)
	}
	again, err := e.served(ctx, "again", set("address", ip))
	if err != nil {
		return "", err
	}
	if again != ip {
		return "", fmt.Errorf("the kept address %s became %s", ip, again)
	}
	if err := e.remove(ctx, "again"); err != nil {
		return "", err
	}
	left, err := e.addresses(ctx)
	if err == nil && left[ip] != "" {
		err = e.release(ctx, kept[ip])
	}
	return "two Services of a namespace, a third with leave; kept, used again", err
}

// addressChanges moves a living Service from one address to another.
func addressChanges(ctx context.Context, e *env) (string, error) {
	ip, err := e.served(ctx, "web")
	if err != nil {
		return "", err
	}
	to, id, err := e.acquire(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = e.release(context.WithoutCancel(ctx), id) }()
	if err := e.edit(ctx, "web", set("address", to)); err != nil {
		return "", err
	}
	if err := e.until(ctx, "the Service to be at "+to, func(ctx context.Context) error {
		s, err := e.get(ctx, "web")
		if err != nil {
			return err
		}
		if in := s.Status.LoadBalancer.Ingress; len(in) != 1 || in[0].IP != to {
			return fmt.Errorf("ingress is %v", in)
		}
		return nil
	}); err != nil {
		return "", err
	}
	if err := e.serves(ctx, to, "80"); err != nil {
		return "", err
	}
	if err := e.until(ctx, "the old address to be released", func(ctx context.Context) error {
		left, err := e.addresses(ctx)
		if err == nil && left[ip] != "" {
			err = fmt.Errorf("%s is there", ip)
		}
		return err
	}); err != nil {
		return "", err
	}
	return "the new address serves, the old one is released", e.remove(ctx, "web")
}

// nodesOf are the names of the cluster's Node objects, sorted.
func (p *place) nodesOf(ctx context.Context) ([]string, error) {
	list, err := p.cluster.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var all []string
	for i := range list.Items {
		all = append(all, list.Items[i].Name)
	}
	slices.Sort(all)
	return all, nil
}

// nodeGone waits until a Node object is deleted.
func (p *place) nodeGone(ctx context.Context, name string) error {
	return p.until(ctx, "the Node "+name+" to be deleted", func(ctx context.Context) error {
		n, err := p.cluster.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return fmt.Errorf("it is there, with taints %v", keys(n))
		}
		return err
	})
}

func keys(n *corev1.Node) []string {
	var all []string
	for _, t := range n.Spec.Taints {
		all = append(all, t.Key)
	}
	return all
}
