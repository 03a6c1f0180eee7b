// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package bare

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/testbed"
)

// JoinVM makes the Node of a VM, initialised and ready.
func (x *Bed) JoinVM(ctx context.Context, name string) error {
	id, ok := x.vms[name]
	if !ok {
		return fmt.Errorf("there is no VM %s", name)
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{ProviderID: "external-cloudstack://" + id},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	_, err := x.Kube.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	return err
}

// Destroy expunges a VM. Its Node, if it is one, is not ready any more.
func (x *Bed) Destroy(ctx context.Context, name string) error {
	if _, err := x.admin(ctx, "destroyVirtualMachine", map[string]string{"id": x.vms[name], "expunge": "true"}); err != nil {
		return err
	}
	delete(x.vms, name)
	n, err := x.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	_, err = x.Kube.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
	return err
}

// Deploy makes a VM like the others.
func (x *Bed) Deploy(ctx context.Context, name string) error {
	params := map[string]string{"name": name, "account": "k8s"}
	for param, from := range map[string][2]string{
		"zoneid": {"listZones", "zone"}, "serviceofferingid": {"listServiceOfferings", "serviceoffering"}, "networkids": {"listNetworks", "network"},
		"templateid": {"listTemplates", "template"}, "domainid": {"listDomains", "domain"},
	} {
		list, err := x.admin(ctx, from[0], map[string]string{"listall": "true", "templatefilter": "all"})
		if err != nil {
			return err
		}
		items, _ := list[from[1]].([]any)
		if len(items) == 0 {
			return fmt.Errorf("%s: an empty list", from[0])
		}
		first, _ := items[0].(map[string]any)
		params[param], _ = first["id"].(string)
	}
	answer, err := x.admin(ctx, "deployVirtualMachine", params)
	if err != nil {
		return err
	}
	vm, _ := answer["virtualmachine"].(map[string]any)
	id, ok := vm["id"].(string)
	if !ok {
		return errors.New("deployVirtualMachine: an answer without the VM's id")
	}
	x.vms[name] = id
	return nil
}

// admin runs a command of the operator, again while CloudStack is away.
func (x *Bed) admin(ctx context.Context, command string, params map[string]string) (answer map[string]any, err error) {
	err = testbed.Wait(ctx, limit, command, func(ctx context.Context) error {
		answer, err = x.Cloud.Admin(ctx, command, params)
		return err
	})
	return answer, err
}
