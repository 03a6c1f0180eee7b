// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/internal/must"
)

// Register creates the Nodes w<from> to w<to> like kubelets with --cloud-provider=external. change may be nil.
func (env *Env) Register(ctx context.Context, from, to int, change func(*corev1.Node)) error {
	return each(from, to, func(i int) {
		name := fmt.Sprintf("w%d", i)
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
			Spec: corev1.NodeSpec{
				Taints: []corev1.Taint{{Key: uninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
			},
			Status: corev1.NodeStatus{
				// No InternalIP: a kubelet leaves it to the cloud provider, which needs one more write for it.
				Addresses:  []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		}

		if change != nil {
			change(n)
		}

		must.Get(env.Client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}))
	})
}

// Join creates the Nodes w<from> to w<to>, initialised and ready.
func (env *Env) Join(ctx context.Context, from, to int) error {
	return each(from, to, func(i int) { must.OK(env.JoinVM(ctx, fmt.Sprintf("w%d", i))) })
}

// JoinVM creates the Node of a VM, initialised and ready.
func (env *Env) JoinVM(ctx context.Context, name string) error {
	id, ok := env.vms[name]
	if !ok {
		return fmt.Errorf("there is no VM %s", name)
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{ProviderID: "external-cloudstack://" + id},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	_, err := env.Client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	return err
}

// VM returns the ID of a VM.
func (env *Env) VM(name string) string { return env.vms[name] }

// Destroy destroys and expunges a VM and sets its Node's Ready condition to Unknown, as Kubernetes does when a kubelet
// sends no heartbeats.
func (env *Env) Destroy(ctx context.Context, name string) (err error) {
	defer must.Return(&err)
	must.Get(env.admin(ctx, "destroyVirtualMachine", map[string]string{"id": env.vms[name], "expunge": "true"}))
	delete(env.vms, name)
	n := must.Get(env.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}))
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	_, err = env.Client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
	return err
}

// Deploy deploys a VM like the others.
func (env *Env) Deploy(ctx context.Context, name string) (err error) {
	defer must.Return(&err)
	params := map[string]string{"name": name, "account": "k8s"}
	for param, from := range map[string][2]string{
		"zoneid":            {"listZones", "zone"},
		"serviceofferingid": {"listServiceOfferings", "serviceoffering"},
		"networkids":        {"listNetworks", "network"},
		"templateid":        {"listTemplates", "template"},
		"domainid":          {"listDomains", "domain"},
	} {
		list := must.Get(env.admin(ctx, from[0], map[string]string{"listall": "true", "templatefilter": "all"}))
		items, _ := list[from[1]].([]any)
		if len(items) == 0 {
			return fmt.Errorf("%s returned an empty list", from[0])
		}
		first, _ := items[0].(map[string]any)
		params[param], _ = first["id"].(string)
	}

	answer := must.Get(env.admin(ctx, "deployVirtualMachine", params))
	vm, _ := answer["virtualmachine"].(map[string]any)
	id, ok := vm["id"].(string)
	if !ok {
		return errors.New("deployVirtualMachine: the answer holds no VM ID")
	}

	env.vms[name] = id
	return nil
}

// admin runs a command as the operator of the cloud and retries it while CloudStack is unavailable.
func (env *Env) admin(
	ctx context.Context, command string, params map[string]string,
) (answer map[string]any, err error) {
	err = Wait(ctx, limit, command, func(ctx context.Context) error {
		answer, err = env.Cloud.Admin(ctx, command, params)
		return err
	})
	return answer, err
}
