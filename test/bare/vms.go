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

// JoinVM creates the Node of a VM, initialised and ready.
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

// Destroy destroys and expunges a VM and sets its Node's Ready condition to Unknown.
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

// Deploy deploys a VM like the others.
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
			return fmt.Errorf("%s returned an empty list", from[0])
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
		return errors.New("deployVirtualMachine: the answer holds no VM ID")
	}
	x.vms[name] = id
	return nil
}

// admin runs a command as the operator of the cloud and retries it while CloudStack is unavailable.
func (x *Bed) admin(ctx context.Context, command string, params map[string]string) (answer map[string]any, err error) {
	err = testbed.Wait(ctx, limit, command, func(ctx context.Context) error {
		answer, err = x.Cloud.Admin(ctx, command, params)
		return err
	})
	return answer, err
}
