terraform {
  required_providers {
    coder = {
      source  = "coder/coder"
      version = "2.13.1"
    }
    kubernetes = {
      source  = "hashicorp/kubernetes"
      version = "~> 2.38"
    }
  }
}

# Without arguments it takes the ServiceAccount of the pod in which Terraform runs.
provider "kubernetes" {}

variable "namespace" {
  type        = string
  description = "Where the pods of workspaces are made. Coder's ServiceAccount needs rights there."
  default     = "coder"
}

variable "image" {
  type        = string
  description = "The image of the pods. It needs sh, and curl or wget, for the agent."
  default     = "docker.io/codercom/enterprise-base:ubuntu"
}

data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

data "coder_parameter" "home_size" {
  name         = "home_size"
  display_name = "Size of /home/coder in GiB"
  type         = "number"
  default      = "10"
  mutable      = false
  validation {
    min = 1
    max = 200
  }
}

locals {
  # The id, because names of owners and workspaces may be longer than those of objects.
  name = "coder-${data.coder_workspace.me.id}"
  labels = {
    "app.kubernetes.io/name"     = "coder-workspace"
    "app.kubernetes.io/instance" = local.name
    "com.coder.workspace.id"     = data.coder_workspace.me.id
    "com.coder.workspace.name"   = data.coder_workspace.me.name
    "com.coder.user.username"    = data.coder_workspace_owner.me.name
  }
}

resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
  dir  = "/home/coder"

  metadata {
    key          = "home"
    display_name = "Disk of /home/coder"
    script       = "coder stat disk --path /home/coder"
    interval     = 60
    timeout      = 5
  }
}

# There is no count, so it stays while the workspace is stopped.
resource "kubernetes_persistent_volume_claim_v1" "home" {
  metadata {
    name      = "${local.name}-home"
    namespace = var.namespace
    labels    = local.labels
  }
  # Some classes of storage make a volume only when a pod asks for it.
  wait_until_bound = false
  spec {
    access_modes = ["ReadWriteOnce"]
    resources {
      requests = {
        storage = "${data.coder_parameter.home_size.value}Gi"
      }
    }
  }
}

resource "kubernetes_pod_v1" "main" {
  count = data.coder_workspace.me.start_count

  metadata {
    name      = local.name
    namespace = var.namespace
    labels    = local.labels
  }
  spec {
    # What runs in a workspace has no business with the API server.
    automount_service_account_token  = false
    termination_grace_period_seconds = 30
    security_context {
      run_as_user     = 1000
      run_as_non_root = true
      fs_group        = 1000
      seccomp_profile {
        type = "RuntimeDefault"
      }
    }
    container {
      name    = "main"
      image   = var.image
      command = ["sh", "-c", coder_agent.main.init_script]
      env {
        name  = "CODER_AGENT_TOKEN"
        value = coder_agent.main.token
      }
      resources {
        requests = {
          cpu    = "250m"
          memory = "512Mi"
        }
        limits = {
          memory = "4Gi"
        }
      }
      security_context {
        allow_privilege_escalation = false
        capabilities {
          drop = ["ALL"]
        }
      }
      volume_mount {
        name       = "home"
        mount_path = "/home/coder"
      }
    }
    volume {
      name = "home"
      persistent_volume_claim {
        claim_name = kubernetes_persistent_volume_claim_v1.home.metadata[0].name
      }
    }
  }
}
