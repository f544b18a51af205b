"""Django's admin on this board. Staff enter it through the site's own log-in, which limits attempts."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse


class BoardAdmin(admin.AdminSite):
    site_header = "Plumbline: tables"
    site_title = "Plumbline"
    index_title = "What the board keeps"

    def login(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Send strangers to the site's log-in, and refuse signed-in people who are not staff."""
        if self.has_permission(request):
            return redirect("admin:index")
        if request.user.is_authenticated:
            raise PermissionDenied("This page is for staff of the board.")
        address = request.GET.get("next", "")
        # Only back into the admin: the site's log-in checks the address again.
        leads_to_admin = address.startswith(reverse("admin:index"))
        return redirect_to_login(address if leads_to_admin else reverse("admin:index"))

    def password_change(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:  # type: ignore[override] # no page of its own
        """At the site's own page, which limits attempts."""
        return redirect("account_change_password")
