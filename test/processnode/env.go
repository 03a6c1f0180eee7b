// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// environment returns a container's environment variables: those of the node first, then the container's own, each of which may
// refer to earlier ones.
func (n *Node) environment(ctx context.Context, pod *corev1.Pod, podIP string) (map[string]string, error) {
	host, port := n.o.ControlPlane.APIServer()
	values := map[string]string{
		"PATH":     "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOSTNAME": pod.Name,
		// There is no kube-proxy for the kubernetes Service: these name the API server itself.
		"KUBERNETES_SERVICE_HOST":       host,
		"KUBERNETES_SERVICE_PORT":       strconv.Itoa(port),
		"KUBERNETES_SERVICE_PORT_HTTPS": strconv.Itoa(port),
	}
	for _, e := range pod.Spec.Containers[0].Env {
		value := expand(e.Value, values)
		if from := e.ValueFrom; from != nil {
			var err error
			switch {
			case from.FieldRef != nil:
				value, err = n.fieldValue(pod, podIP, from.FieldRef.FieldPath)
			case from.SecretKeyRef != nil:
				var data map[string]string
				data, err = n.secret(ctx, pod.Namespace, from.SecretKeyRef.Name, from.SecretKeyRef.Optional)
				value = data[from.SecretKeyRef.Key]
			default:
				err = fmt.Errorf("process nodes support only fieldRef and secretKeyRef")
			}
			if err != nil {
				return nil, fmt.Errorf("environment variable %s: %w", e.Name, err)
			}
		}
		values[e.Name] = value
	}
	return values, nil
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
	return maps.Clone(c.Data), nil
}

func absent(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil
	}
	return err
}

// fieldValue returns the value of a field of the downward API.
func (n *Node) fieldValue(pod *corev1.Pod, podIP, path string) (string, error) {
	value, ok := map[string]string{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID),
		"spec.nodeName": pod.Spec.NodeName, "spec.serviceAccountName": pod.Spec.ServiceAccountName,
		"status.hostIP": n.o.Address, "status.podIP": podIP,
	}[path]
	if !ok {
		return "", fmt.Errorf("process nodes do not support the field %q", path)
	}
	return value, nil
}

var reference = regexp.MustCompile(`\$(\$|\([^)]*\))`)

// expand replaces $(NAME) by the variable's value and $$ by $; references to unknown
// variables remain unchanged.
func expand(text string, values map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		if value, ok := values[found[2:len(found)-1]]; ok {
			return value
		}
		return found
	})
}
