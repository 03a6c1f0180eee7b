// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/csccm/csccm/pkg/annotation"
)

// Port returns a port of a Service. old is the Service's present port with this number, or nil.
type Port func(protocol corev1.Protocol, number int32, old *corev1.ServicePort) corev1.ServicePort

// Change changes a Service by words:
//
//	80,udp:53, ports=80      its ports; 8000-8009 are ten ports, 8000-8018/2 as well; +443 adds a port, -443 removes it
//	nodeport=31999           the node port of its first port; nodeport:PORT=31999 of another port
//	ip=, ranges=a,b          spec.loadBalancerIP, spec.loadBalancerSourceRanges; apart:61 are 61 ranges that cannot be
//	                         merged
//	policy=Local, affinity=ClientIP, class=x, type=ClusterIP
//	algorithm=source         the controller's annotation of that name; -algorithm removes it
//	example.org/note=x       another annotation
//	shows=203.0.113.40       the status and finalizer that another controller, speaker, has set
//	no-status, no-annotations, no-finalizers
func Change(s *corev1.Service, words []string, port Port) error {
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	for _, w := range words {
		key, value, set := strings.Cut(w, "=")
		if n := 0; strings.HasPrefix(value, "apart:") {
			_, _ = fmt.Sscanf(value, "apart:%d", &n)
			value = apart(n)
		}
		if err := changeOne(s, key, value, set, port); err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
	}
	return nil
}

func changeOne(s *corev1.Service, key, value string, set bool, port Port) error {
	switch {
	case key == "ports" || !set && key[0] >= '0' && key[0] <= '9' || !set && strings.HasPrefix(key, "udp:"):
		if set {
			key = value
		}
		return setPorts(s, key, port)
	case key[0] == '+':
		return setPorts(s, portsOf(s, "")+","+key[1:], port)
	case !set && key[0] == '-' && len(key) > 1 && key[1] <= '9':
		return setPorts(s, portsOf(s, key[1:]), port)
	case strings.HasPrefix(key, "nodeport"):
		n, err := strconv.Atoi(value)
		for i := range s.Spec.Ports {
			if number := strings.TrimPrefix(key, "nodeport"); number == "" && i == 0 ||
				number == fmt.Sprintf(":%d", s.Spec.Ports[i].Port) {
				s.Spec.Ports[i].NodePort = int32(n) // #nosec G109 G115 -- written in a scenario
			}
		}
		return err
	case key == "ip":
		s.Spec.LoadBalancerIP = value
	case key == "ranges":
		if s.Spec.LoadBalancerSourceRanges = nil; value != "" {
			s.Spec.LoadBalancerSourceRanges = strings.Split(value, ",")
		}
	case key == "policy":
		if s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicy(value); value != "Local" {
			s.Spec.HealthCheckNodePort = 0
		}
	case key == "affinity":
		if s.Spec.SessionAffinity = corev1.ServiceAffinity(value); value == "None" {
			s.Spec.SessionAffinityConfig = nil
		}
	case key == "class":
		if s.Spec.LoadBalancerClass = nil; value != "" {
			s.Spec.LoadBalancerClass = &value
		}
	case key == "type":
		s.Spec.Type = corev1.ServiceType(value)
	case key == "shows":
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: value}}
		s.Finalizers = []string{servicehelpers.LoadBalancerCleanupFinalizer}
		s.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager:  "speaker",
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`),
		}}
	case key == "no-status":
		s.Status = corev1.ServiceStatus{}
	case key == "no-annotations":
		s.Annotations = map[string]string{}
	case key == "no-finalizers":
		s.Finalizers = nil
	case key[0] == '-':
		delete(s.Annotations, annotation.Prefix+key[1:])
	case !set:
		return fmt.Errorf("this is no change of a Service")
	case strings.Contains(key, "/"):
		s.Annotations[key] = value
	default:
		s.Annotations[annotation.Prefix+key] = value
	}

	return nil
}

func apart(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("198.51.100.%d/32", 2*i))
	}
	return strings.Join(out, ",")
}

// portsOf returns the ports of a Service in the notation of Change, without one of them.
func portsOf(s *corev1.Service, without string) string {
	var out []string
	for _, p := range s.Spec.Ports {
		text := fmt.Sprint(p.Port)
		if p.Protocol == corev1.ProtocolUDP {
			text = "udp:" + text
		}
		if text != without {
			out = append(out, text)
		}
	}
	return strings.Join(out, ",")
}

func setPorts(s *corev1.Service, list string, port Port) error {
	was := s.Spec.Ports
	s.Spec.Ports = nil
	for text := range strings.SplitSeq(list, ",") {
		if text == "" {
			continue
		}

		protocol := corev1.ProtocolTCP
		numbers, udp := strings.CutPrefix(text, "udp:")
		if udp {
			protocol = corev1.ProtocolUDP
		}

		first, last, step := int32(0), int32(0), int32(1)
		if n, err := fmt.Sscanf(numbers, "%d-%d/%d", &first, &last, &step); n == 0 {
			return err
		}

		for number := first; number <= max(first, last); number += step {
			var old *corev1.ServicePort
			for i := range was {
				if was[i].Port == number && (was[i].Protocol == corev1.ProtocolUDP) == udp {
					old = &was[i]
				}
			}
			s.Spec.Ports = append(s.Spec.Ports, port(protocol, number, old))
		}
	}

	return nil
}

// Subset reports whether values contains all pairs NAME=VALUE.
func Subset(values map[string]string, pairs []string) bool {
	return !slices.ContainsFunc(pairs, func(pair string) bool {
		name, want, _ := strings.Cut(pair, "=")
		return values[name] != want
	})
}
