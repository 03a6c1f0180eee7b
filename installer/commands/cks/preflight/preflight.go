// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preflight decides whether an operation of CloudStack Kubernetes Service (CKS) can succeed: create, scale, upgrade
// and delete of a CloudManaged cluster. CKS itself finds many problems only when VMs were already created or replaced.
//
// The package is pure: from Facts to Findings. Package facts reads the Facts.
package preflight

import (
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Severity says what a Finding means for the operation.
type Severity string

// Severities, from the worst.
const (
	Error      Severity = "error"   // the operation would fail, or break the cluster
	Warning    Severity = "warning" // the operation can succeed; something needs a hand
	NotChecked Severity = "not checked"
)

// Finding is one problem, or one thing that could not be checked.
type Finding struct {
	// Code names the rule; it never changes.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// Object is what the finding is about, such as "offering Small Instance".
	Object string `json:"object"`
	// What is wrong; for NotChecked, why it is not known.
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"`
	// Reference is the address of an upstream issue, or empty.
	Reference string `json:"reference,omitempty"`
}

// String returns the finding in one line, without remedy and reference.
func (f Finding) String() string {
	if f.Severity == NotChecked {
		return "not checked: " + f.Object + ": " + f.What
	}
	return f.Object + ": " + f.What
}

// Subject is a part of Facts.
type Subject string

// The subjects. Their text completes "not checked: ...".
const (
	SubjectClusters    Subject = "the clusters"
	SubjectVersions    Subject = "the Kubernetes versions"
	SubjectOfferings   Subject = "the service offerings"
	SubjectTemplates   Subject = "the template of the nodes"
	SubjectNetworks    Subject = "the networks"
	SubjectKeyPairs    Subject = "the SSH key pairs"
	SubjectQuota       Subject = "the resource limits"
	SubjectFree        Subject = "the free public addresses of the zone"
	SubjectAddresses   Subject = "the addresses of the network"
	SubjectFirewall    Subject = "the firewall rules of the network"
	SubjectForwards    Subject = "the port forwarding rules of the network"
	SubjectBalancers   Subject = "the load balancer rules of the network"
	SubjectNetworkVMs  Subject = "the VMs of the network"
	SubjectNodes       Subject = "the Nodes"
	SubjectServices    Subject = "the Services"
	SubjectCertificate Subject = "the certificate of the API server"
	SubjectKubeconfig  Subject = "the certificate in the administrator's kubeconfig"
)

// Facts are what the rules decide by. Cluster is nil before a create.
type Facts struct {
	// Now is the time of CloudStack's server, which the clocks of the nodes follow more likely than this machine's.
	Now time.Time
	// Cluster is the one to change; it is among Clusters.
	Cluster   *cloudstack.KubernetesCluster
	Clusters  []cloudstack.KubernetesCluster
	Versions  []cloudstack.KubernetesVersion
	Offerings []cloudstack.ServiceOffering
	Templates []cloudstack.Template
	Networks  []cloudstack.Network
	KeyPairs  []cloudstack.KeyPair
	Quota     *cloudstack.Quota
	// FreeAddresses is how many public addresses of the zone are free.
	FreeAddresses int
	// What follows is of the cluster's network, or for a create of the network that it names.
	Addresses  []cloudstack.PublicIP
	Firewall   []cloudstack.FirewallRule
	Forwards   []cloudstack.PortForwarding
	Balancers  []cloudstack.LoadBalancerRule
	NetworkVMs []cloudstack.VirtualMachine
	// Nodes and Services are Kubernetes'; Services only those of type LoadBalancer.
	Nodes    []Node
	Services []Service
	// Certificates are the API server's, and the client certificate in the administrator's kubeconfig where that was read.
	Certificates []Certificate
	// Unread says of what could not be read why not. Rules that need it return a NotChecked finding.
	Unread map[Subject]string
}

// Node is a Kubernetes Node.
type Node struct {
	Name string
	// VMID is the VM that the Node is; empty when it is not known.
	VMID  string
	Ready bool
	// Why is the message of condition Ready, when it is not true.
	Why string
}

// Service is a Service of type LoadBalancer, with its addresses.
type Service struct {
	Namespace, Name, UID string
	Addresses            []string
}

// Certificate is one that kubeadm made.
type Certificate struct {
	// Of is SubjectCertificate or SubjectKubeconfig.
	Of                  Subject
	NotBefore, NotAfter time.Time
	// Host is the host of the cluster's endpoint, and Names are the DNS names and addresses that the certificate is valid for.
	// Only a server's certificate has them.
	Host  string
	Names []string
}

// DeleteRequest is how a cluster is to be deleted.
type DeleteRequest struct {
	// RemoveServices says that the Services of type LoadBalancer are deleted first, and with them their addresses and rules.
	RemoveServices bool
}

// Create decides whether a cluster can be created as requested.
func Create(f *Facts, r cloudstack.CreateClusterRequest) []Finding {
	c := newCheck(f)
	c.create(r)
	return c.findings
}

// Scale decides whether f.Cluster can be scaled as requested.
func Scale(f *Facts, r cloudstack.ScaleClusterRequest) []Finding {
	c := newCheck(f)
	c.scale(r)
	return c.findings
}

// Upgrade decides whether f.Cluster can be upgraded to a version, by its id.
func Upgrade(f *Facts, versionID string) []Finding {
	c := newCheck(f)
	c.upgrade(versionID)
	return c.findings
}

// Delete decides whether f.Cluster can be deleted, and names what would stay behind.
func Delete(f *Facts, r DeleteRequest) []Finding {
	c := newCheck(f)
	c.delete(r)
	return c.findings
}
