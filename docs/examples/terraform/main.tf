# The controller by Terraform's helm provider (version 3), on a cluster that is there already. Its Secret is not made here:
# Terraform would keep the keys in its state. Make it by `csccm install`, or by kubectl, before or after `terraform apply`.

terraform {
  required_version = ">= 1.5"
  required_providers {
    helm = {
      source  = "hashicorp/helm"
      version = "~> 3.0"
    }
  }
}

variable "kubeconfig" {
  description = "Path of the cluster's kubeconfig."
  type        = string
  default     = "~/.kube/config"
}

variable "chart_version" {
  description = "Version of the chart; empty is the newest."
  type        = string
  default     = ""
}

provider "helm" {
  kubernetes = {
    config_path = pathexpand(var.kubeconfig)
  }
}

resource "helm_release" "cloudstack_ccm" {
  name       = "cloudstack-ccm"
  namespace  = "kube-system"
  repository = "oci://ghcr.io/csccm/charts"
  chart      = "cloudstack-ccm"
  version    = var.chart_version != "" ? var.chart_version : null

  values = [file("${path.module}/values.yaml")]

  # The Pods become ready when the Secret is there.
  wait = false
}
