"""Django's admin on this board: entered by the site's own log-in, which limits attempts, and by staff alone."""

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
        """There is no second way in: whoever is not signed in goes to the site's log-in, and others are refused."""
        if self.has_permission(request):
            return redirect("admin:index")
        if request.user.is_authenticated:
            raise PermissionDenied("This page is for staff of the board.")
        wanted = request.GET.get("next", "")
        # Only back into the admin: the site's log-in checks the address again.
        inside = wanted.startswith(reverse("admin:index"))
        return redirect_to_login(wanted if inside else reverse("admin:index"))

    def password_change(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """At the site's own page, which limits attempts."""
        return redirect("account_change_password")
