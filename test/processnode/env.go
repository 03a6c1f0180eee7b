// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// environment returns a container's environment variables in the kubelet's order:
// those of the node first, then the container's own, each of which may refer to
// earlier ones. It returns them as a list for exec and as a map.
func (n *Node) environment(ctx context.Context, pod *corev1.Pod, podIP string) ([]string, map[string]string, error) {
	c := &pod.Spec.Containers[0]
	host, port := n.o.ControlPlane.APIServer()
	var order []string
	values := map[string]string{}
	put := func(name, value string) {
		if _, ok := values[name]; !ok {
			order = append(order, name)
		}
		values[name] = value
	}
	put("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	put("HOSTNAME", pod.Name)
	// There is no kube-proxy for the kubernetes Service: these name the API server itself.
	put("KUBERNETES_SERVICE_HOST", host)
	put("KUBERNETES_SERVICE_PORT", strconv.Itoa(port))
	put("KUBERNETES_SERVICE_PORT_HTTPS", strconv.Itoa(port))
	for _, from := range c.EnvFrom {
		data, err := n.envFrom(ctx, pod.Namespace, from)
		if err != nil {
			return nil, nil, err
		}
		for k, v := range data {
			put(from.Prefix+k, v)
		}
	}
	for _, e := range c.Env {
		value := expand(e.Value, values)
		if e.ValueFrom != nil {
			var ok bool
			var err error
			if value, ok, err = n.envValue(ctx, pod, podIP, e.ValueFrom); err != nil {
				return nil, nil, fmt.Errorf("environment variable %s: %w", e.Name, err)
			} else if !ok {
				continue
			}
		}
		put(e.Name, value)
	}
	env := make([]string, 0, len(order))
	for _, name := range order {
		env = append(env, name+"="+values[name])
	}
	return env, values, nil
}

func (n *Node) envFrom(ctx context.Context, namespace string, from corev1.EnvFromSource) (map[string]string, error) {
	switch {
	case from.ConfigMapRef != nil:
		return n.configMap(ctx, namespace, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
	case from.SecretRef != nil:
		return n.secret(ctx, namespace, from.SecretRef.Name, from.SecretRef.Optional)
	default:
		return nil, nil
	}
}

// envValue returns the value of a reference, and false for an optional reference to an
// object or a key that does not exist.
func (n *Node) envValue(ctx context.Context, pod *corev1.Pod, podIP string, from *corev1.EnvVarSource) (string, bool, error) {
	key := func(kind, object, key string, optional *bool, data map[string]string, err error) (string, bool, error) {
		if err != nil {
			return "", false, err
		}
		value, ok := data[key]
		if !ok && (optional == nil || !*optional) {
			return "", false, fmt.Errorf("couldn't find key %s in %s %s/%s", key, kind, pod.Namespace, object)
		}
		return value, ok, nil
	}
	switch {
	case from.FieldRef != nil:
		value, err := fieldValue(pod, n.o.Address, podIP, from.FieldRef.FieldPath)
		return value, true, err
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		data, err := n.secret(ctx, pod.Namespace, r.Name, r.Optional)
		return key("Secret", r.Name, r.Key, r.Optional, data, err)
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		data, err := n.configMap(ctx, pod.Namespace, r.Name, r.Optional)
		return key("ConfigMap", r.Name, r.Key, r.Optional, data, err)
	case from.ResourceFieldRef != nil:
		value, err := resourceValue(&pod.Spec.Containers[0], from.ResourceFieldRef)
		return value, true, err
	default:
		return "", false, fmt.Errorf("process nodes support only fieldRef, secretKeyRef, configMapKeyRef and resourceFieldRef")
	}
}

// secret returns a Secret's data; nil when it is optional and does not exist.
func (n *Node) secret(ctx context.Context, namespace, name string, optional *bool) (map[string]string, error) {
	s, err := n.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, absent(err, optional)
	}
	data := map[string]string{}
	for k, v := range s.Data {
		data[k] = string(v)
	}
	return data, nil
}

// configMap returns a ConfigMap's data; nil when it is optional and does not exist.
func (n *Node) configMap(ctx context.Context, namespace, name string, optional *bool) (map[string]string, error) {
	c, err := n.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, absent(err, optional)
	}
	data := map[string]string{}
	for k, v := range c.BinaryData {
		data[k] = string(v)
	}
	for k, v := range c.Data {
		data[k] = v
	}
	return data, nil
}

func absent(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil
	}
	return err
}

// fieldValue returns the value of a field of the downward API.
func fieldValue(pod *corev1.Pod, hostIP, podIP, path string) (string, error) {
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return formatMap(pod.Labels), nil
	case "metadata.annotations":
		return formatMap(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return hostIP, nil
	case "status.podIP", "status.podIPs":
		return podIP, nil
	}
	for prefix, of := range map[string]map[string]string{"metadata.labels['": pod.Labels, "metadata.annotations['": pod.Annotations} {
		if key, ok := strings.CutPrefix(path, prefix); ok && strings.HasSuffix(key, "']") {
			return of[strings.TrimSuffix(key, "']")], nil
		}
	}
	return "", fmt.Errorf("unknown field %q", path)
}

func formatMap(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for k, v := range m {
		lines = append(lines, fmt.Sprintf("%s=%q", k, v))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// resourceValue returns a request or limit of the container in units of the divisor, rounded up.
func resourceValue(c *corev1.Container, ref *corev1.ResourceFieldSelector) (string, error) {
	kind, name, _ := strings.Cut(ref.Resource, ".")
	list := c.Resources.Requests
	if kind == "limits" {
		list = c.Resources.Limits
	} else if kind != "requests" {
		return "", fmt.Errorf("unknown resource %q", ref.Resource)
	}
	quantity, ok := list[corev1.ResourceName(name)]
	if !ok {
		// Without a value in the spec the kubelet uses the node's allocatable resources.
		quantity = map[string]resource.Quantity{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"), "ephemeral-storage": resource.MustParse("20Gi")}[name]
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	q, d := quantity.MilliValue(), divisor.MilliValue()
	return strconv.FormatInt((q+d-1)/d, 10), nil
}

// expand replaces $(NAME) by the variable's value and $$ by $; references to unknown
// variables remain unchanged.
func expand(text string, values map[string]string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		switch text[i+1] {
		case '$':
			b.WriteByte('$')
			i++
		case '(':
			end := strings.IndexByte(text[i:], ')')
			if end < 0 {
				b.WriteByte('$')
				continue
			}
			name := text[i+2 : i+end]
			if value, ok := values[name]; ok {
				b.WriteString(value)
			} else {
				b.WriteString(text[i : i+end+1])
			}
			i += end
		default:
			b.WriteByte('$')
		}
	}
	return b.String()
}
