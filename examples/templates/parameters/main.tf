terraform {
  required_providers {
    coder = {
      source  = "coder/coder"
      version = "2.13.1"
    }
  }
}

data "coder_workspace" "me" {}

# Chosen when the workspace is made, and at any later start.
data "coder_parameter" "cores" {
  name         = "cores"
  display_name = "Cores"
  type         = "number"
  default      = "2"
  mutable      = true
  validation {
    min = 1
    max = 16
  }
}

# Chosen once: the data would not move along.
data "coder_parameter" "region" {
  name         = "region"
  display_name = "Region"
  type         = "string"
  default      = "north"
  mutable      = false
  option {
    name  = "North"
    value = "north"
  }
  option {
    name  = "South"
    value = "south"
  }
}

resource "terraform_data" "sized" {
  count = data.coder_workspace.me.start_count
  input = "${data.coder_parameter.cores.value} cores in ${data.coder_parameter.region.value}"
}
