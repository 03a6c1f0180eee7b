// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package family reports whose cloud controller manager a Pod runs.
package family

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Family says whose controller a predecessor is.
type Family string

// Families.
const (
	Apache   Family = "apache"   // apache/cloudstack-kubernetes-provider
	Leaseweb Family = "leaseweb" // Leaseweb's fork
	Other    Family = "other"    // of another cloud, or not known
)

// Replaces reports whether a takeover can take the place of the workload with these Pods.
func Replaces(pod *corev1.PodSpec, workload string) bool {
	family, _ := OfPod(pod, workload)
	return family == Apache || family == Leaseweb
}

// OfPod returns the container that runs a cloud controller manager, and whose it is.
func OfPod(pod *corev1.PodSpec, workload string) (Family, *corev1.Container) {
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if f := ofContainer(c, workload); f != "" {
			return f, c
		}
	}
	return "", nil
}

// ofContainer judges by the arguments, which images that were mirrored or built by hand keep, then by the image.
func ofContainer(c *corev1.Container, name string) Family {
	provider, _ := Argument(Arguments(c), "cloud-provider")
	switch {
	case strings.Contains(c.Image, "leaseweb"), provider == "cloudstack":
		return Leaseweb
	case strings.Contains(c.Image, "cloudstack-kubernetes-provider"), provider == "external-cloudstack":
		return Apache
	case strings.Contains(c.Image, "cloud-controller-manager"), strings.Contains(name, "cloud-controller-manager") && provider != "":
		return Other
	case strings.Contains(name, "cloud-controller-manager") && strings.Contains(c.Name, "cloud-controller-manager"):
		return Other
	}
	return ""
}

// Arguments are the command line of a container.
func Arguments(c *corev1.Container) []string { return slices.Concat(c.Command, c.Args) }

// Argument finds a flag in either of its forms.
func Argument(args []string, name string) (value string, found bool) {
	for i, a := range args {
		a, isFlag := strings.CutPrefix(a, "-")
		if !isFlag {
			continue
		}
		key, value, joined := strings.Cut(strings.TrimPrefix(a, "-"), "=")
		switch {
		case key != name:
		case joined:
			return strings.Trim(value, `"`), true
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
			return args[i+1], true
		default:
			return "true", true
		}
	}
	return "", false
}
