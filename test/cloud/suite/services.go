// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// prefix is that of the controller's annotations.
	prefix = "service.beta.kubernetes.io/cloudstack-load-balancer-"
	// trusted is the namespace whose Services may use the annotations that the chart denies to tenants.
	trusted = "cloud-trusted"
)

// env is what a scenario works with.
type env struct {
	*place
	// namespace of its Services.
	namespace string
}

// change is made to a Service before it is created or updated.
type change func(*corev1.Service)

// set sets an annotation of the controller.
func set(name, value string) change {
	return func(s *corev1.Service) {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[prefix+name] = value
	}
}

// ports sets the Service's TCP ports.
func ports(numbers ...int32) change {
	return func(s *corev1.Service) {
		old := map[int32]corev1.ServicePort{}
		for _, p := range s.Spec.Ports {
			old[p.Port] = p
		}
		s.Spec.Ports = nil
		for _, n := range numbers {
			p, ok := old[n]
			if !ok {
				p = corev1.ServicePort{Name: fmt.Sprintf("p%d", n), Port: n, TargetPort: intstr.FromInt32(8080)}
			}
			s.Spec.Ports = append(s.Spec.Ports, p)
		}
	}
}

// create makes a Service of type LoadBalancer with port 80.
func (e *env) create(ctx context.Context, name string, changes ...change) (*corev1.Service, error) {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	ports(80)(s)
	for _, c := range changes {
		c(s)
	}
	return e.cluster.Client.CoreV1().Services(e.namespace).Create(ctx, s, metav1.CreateOptions{})
}

// served makes a Service and waits for its address.
func (e *env) served(ctx context.Context, name string, changes ...change) (ip string, err error) {
	if _, err := e.create(ctx, name, changes...); err != nil {
		return "", err
	}
	return e.address(ctx, name)
}

func (e *env) get(ctx context.Context, name string) (*corev1.Service, error) {
	return e.cluster.Client.CoreV1().Services(e.namespace).Get(ctx, name, metav1.GetOptions{})
}

// edit changes a Service, again where somebody else has written it meanwhile.
func (e *env) edit(ctx context.Context, name string, changes ...change) error {
	for {
		s, err := e.get(ctx, name)
		if err != nil {
			return err
		}
		for _, c := range changes {
			c(s)
		}
		if _, err = e.cluster.Client.CoreV1().Services(e.namespace).Update(ctx, s, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// address waits for the Service's address.
func (e *env) address(ctx context.Context, name string) (ip string, err error) {
	err = e.until(ctx, "Service "+name+" to get its address", func(ctx context.Context) error {
		s, err := e.get(ctx, name)
		if err != nil {
			return err
		}
		if len(s.Status.LoadBalancer.Ingress) == 0 || s.Status.LoadBalancer.Ingress[0].IP == "" {
			return errors.New("no address yet; its Events: " + e.events(ctx, "Service", name))
		}
		ip = s.Status.LoadBalancer.Ingress[0].IP
		return nil
	})
	return ip, err
}

// events are the reasons and messages of an object's Events.
func (e *env) events(ctx context.Context, kind, name string) string {
	list, err := e.cluster.Client.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name})
	if err != nil {
		return err.Error()
	}
	var all []string
	for i := range list.Items {
		all = append(all, list.Items[i].Reason+": "+list.Items[i].Message)
	}
	return strings.Join(all, "; ")
}

// event waits for an Event of a reason and returns its message.
func (e *env) event(ctx context.Context, kind, name, reason string) (message string, err error) {
	err = e.until(ctx, fmt.Sprintf("the Event %s on %s %s", reason, kind, name), func(ctx context.Context) error {
		list, err := e.cluster.Client.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if list.Items[i].Reason == reason {
				message = list.Items[i].Message
				return nil
			}
		}
		return errors.New("there are: " + e.events(ctx, kind, name))
	})
	return message, err
}

// remove deletes a Service and waits until the controller lets it go.
func (e *env) remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := e.cluster.Client.CoreV1().Services(e.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	for _, name := range names {
		if err := e.until(ctx, "Service "+name+" to go", func(ctx context.Context) error {
			_, err := e.get(ctx, name)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.New("it is still there; its Events: " + e.events(ctx, "Service", name))
		}); err != nil {
			return err
		}
	}
	return nil
}

// ignoreGone is nil for an object that is not there.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// removeAll deletes all Services of the namespace.
func (e *env) removeAll(ctx context.Context) error {
	list, err := e.cluster.Client.CoreV1().Services(e.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return e.remove(ctx, names...)
}

// makeNamespace makes the namespace of the scenario.
func (e *env) makeNamespace(ctx context.Context) error {
	_, err := e.cluster.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
